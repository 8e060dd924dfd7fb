#include "api/plans/packed_plan.hpp"

#include <algorithm>
#include <utility>

#include "api/array_types.hpp"
#include "api/run/lent_memory.hpp"
#include "api/run/sdpa_run.hpp"
#include "api/run_options.hpp"
#include "api/search/sdpa_search.hpp"

namespace ioattn::api {
namespace {

constexpr std::string_view between_shapes = ",", behind_shapes = ": ", between_plans = " | ";

std::string label_of(const PackedShape& shape) {
  return std::to_string(shape.problem.shape.n) + 'x' + std::to_string(shape.problem.shape.m);
}

// What is before the separator, which is taken off the text with it; all where there is none.
std::string_view take_until(std::string_view separator, std::string_view* text) {
  const std::string_view taken = text->substr(0, text->find(separator));
  text->remove_prefix(std::min(text->size(), taken.size() + separator.size()));
  return taken;
}

// The text of each shape's plan.
Status split(std::string_view text, const std::vector<PackedShape>& shapes,
             std::vector<std::string_view>* plans) {
  while (!text.empty()) {
    std::string_view plan = take_until(between_plans, &text);
    std::string_view labels = take_until(behind_shapes, &plan);
    while (!labels.empty()) {
      const std::string_view label = take_until(between_shapes, &labels);
      if (plans->size() == shapes.size() || label != label_of(shapes[plans->size()])) {
        return Status::error(StatusCode::invalid_argument,
                             "the text is of other sequences: it has a plan for %.40s",
                             std::string(label).c_str());
      }
      plans->push_back(plan);
    }
  }
  if (plans->size() == shapes.size()) return Status::ok();
  return Status::error(StatusCode::invalid_argument,
                       "the text is of other sequences: it has no plan for %s",
                       label_of(shapes[plans->size()]).c_str());
}

// A search for each class among the shapes that wisdom has no plan for. *learned: by shape, whether
// one has found a plan.
Status search_classes(const PackedPlan::Goal& goal, const PackedWork& work,
                      const RunOptions& options, std::vector<bool>* learned) {
  const std::optional<SdpaSet> set = goal.set();
  struct Searched {
    wisdom::ProblemClass of;
    bool learned;
  };
  std::vector<Searched> classes;
  for (std::size_t i = 0; i < work.shapes().size(); ++i) {
    const PackedShape& shape = work.shapes()[i];
    const SdpaShape sizes = shape_to_plan(shape.problem.shape);
    const wisdom::ProblemClass of = class_of(sizes, shape.problem.dtype, set);
    auto known = std::find_if(classes.begin(), classes.end(),
                              [&](const Searched& one) { return one.of == of; });
    if (known == classes.end()) {
      RunOptions with_all_threads = shape.options;
      with_all_threads.threads = options.threads;
      bool found = false;
      const Status status =
          search_if_needed<SdpaKind>(shape.problem, set, with_all_threads, &found);
      if (!status.is_ok()) return status;
      known = classes.insert(classes.end(), {of, found});
    }
    (*learned)[i] = known->learned;
  }
  return Status::ok();
}

}  // namespace

template <class Plan>
Status PackedPlan::plan_shapes(const Plan& plan) {
  plans_.resize(work_.shapes().size());
  return work_.plan([&](std::size_t i, PackedShape* shape) {
    SdpaPlan* made = &plans_[i];
    const Status status = plan(i, *shape, made);
    if (!status.is_ok()) return status;
    shape->plan = made->plan();
    shape->bytes = made->aligned_bytes();
    return status;
  });
}

Status PackedPlan::create(const Goal& goal, const RunOptions& options, PackedPlan* result) {
  result->goal_ = goal;
  result->work_ = PackedWork(goal.sequences, options);
  Status status =
      check_scratch(goal.sequences, goal.gradients, goal.problem.dtype, options.memory_limit_bytes);
  if (!status.is_ok()) return status;
  std::vector<bool> learned(result->work_.shapes().size());
  if (asks_for_search(options)) status = search_classes(goal, result->work_, options, &learned);
  if (!status.is_ok()) return status;
  return result->plan_shapes([&](std::size_t i, const PackedShape& shape, SdpaPlan* made) {
    return SdpaPlan::create_as_known(result->goal_of(shape), shape.options, learned[i], made);
  });
}

Status PackedPlan::parse(const Goal& goal, const RunOptions& options, std::string_view text,
                         PackedPlan* result) {
  result->goal_ = goal;
  result->work_ = PackedWork(goal.sequences, options);
  std::vector<std::string_view> texts;
  const Status status = split(text, result->work_.shapes(), &texts);
  if (!status.is_ok()) return status;
  const Status parsed =
      result->plan_shapes([&](std::size_t i, const PackedShape& shape, SdpaPlan* made) {
        return SdpaPlan::parse(result->goal_of(shape), shape.options, texts[i], made);
      });
  if (!parsed.is_ok() || result->text() == text) return parsed;
  return Status::error(StatusCode::invalid_argument,
                       "the text is none of a plan, which reads \"%.200s\"",
                       result->text().c_str());
}

index_t PackedPlan::workspace_bytes() const { return with_slack(work_.workspace_bytes()); }

std::string PackedPlan::text() const {
  std::string all, plan;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (i == 0) plan = plans_[i].text();
    all += label_of(work_.shapes()[i]);
    const bool is_last = i + 1 == plans_.size();
    std::string next = is_last ? std::string() : plans_[i + 1].text();
    if (next == plan) {
      all += between_shapes;
    } else {
      (all += behind_shapes) += plan;
      if (!is_last) all += between_plans;
    }
    plan = std::move(next);
  }
  return all;
}

Status PackedPlan::check(const SdpaProblem& problem, index_t sequences) const {
  const auto planned = static_cast<index_t>(goal_.sequences.size());
  if (sequences == planned) return check_planned(goal_.problem, problem);
  return Status::error(StatusCode::invalid_argument,
                       "the plan is for %lld sequences, the inputs are %lld",
                       static_cast<long long>(planned), static_cast<long long>(sequences));
}

Status PackedPlan::check(index_t i, const Sequence& given) const {
  const Sequence& planned = goal_.sequences[static_cast<std::size_t>(i)];
  Status same = check_planned(planned.problem, given.problem);
  if (!same.is_ok()) return same;
  if (given.first_query == planned.first_query && given.first_key == planned.first_key) return same;
  return Status::error(StatusCode::invalid_argument,
                       "sequence %lld of the plan begins with query %lld and key %lld, that of the "
                       "inputs with query %lld and key %lld",
                       static_cast<long long>(i), static_cast<long long>(planned.first_query),
                       static_cast<long long>(planned.first_key),
                       static_cast<long long>(given.first_query),
                       static_cast<long long>(given.first_key));
}

template <class S>
Status PackedPlan::forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                           void* workspace, index_t bytes, OverflowCounts* overflows) const {
  const Status checked = check_forward(inputs, o, lse);
  if (!checked.is_ok()) return checked;
  Lent lent(workspace, bytes);
  return work_.forward<S>(inputs, o, lse, lent.get(), overflows);
}

template <class S, class G>
Status PackedPlan::backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                            const SdpaGradients<G>& gradients, void* workspace, index_t bytes,
                            OverflowCounts* overflows) const {
  Status checked = check_planned(goal_.gradients, set_of<S>(gradients));
  if (checked.is_ok()) checked = check_backward(inputs, forward, gradients);
  if (!checked.is_ok()) return checked;
  Lent lent(workspace, bytes);
  return work_.backward<S, G>(inputs, forward, gradients, lent.get(), overflows);
}

#define IOATTN_INSTANTIATE(S)                                                                      \
  template Status PackedPlan::forward(const SdpaInputs<S>&, TensorView<S>, TensorView<Compute<S>>, \
                                      void*, index_t, OverflowCounts*) const
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                                 \
  template Status PackedPlan::backward(const SdpaInputs<S>&, const SdpaForwardResults<S>&,       \
                                       const SdpaGradients<G>&, void*, index_t, OverflowCounts*) \
      const
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
