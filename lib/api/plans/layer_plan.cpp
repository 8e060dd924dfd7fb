#include "api/plans/layer_plan.hpp"

#include "api/array_types.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/planning/session.hpp"
#include "api/plans/parsed_plan.hpp"
#include "api/run/lent_memory.hpp"
#include "api/run_options.hpp"
#include "api/search/layer_search.hpp"

namespace ioattn::api {

std::optional<GradientSet> LayerPlan::set() const {
  return is_forward() ? std::nullopt : std::optional(goal_.gradients);
}

Status LayerPlan::create(const Goal& goal, const RunOptions& options, LayerPlan* result) {
  result->goal_ = goal;
  const std::optional<GradientSet> set = result->set();
  bool learned = false;
  Status status = search_if_needed<LayerKind>(goal.problem, set, options, &learned);
  if (!status.is_ok()) return status;
  plan::Estimate estimate;
  status = plan_layer(goal.problem, set, options, &result->plan_, &estimate, &result->origin_);
  if (!status.is_ok()) return status;
  if (learned && result->origin_.wisdom.is_ok()) result->origin_.name = name_of(options.rigor);
  result->objective_ = name_of(options.objective);
  result->M_ = estimate.M;
  return result->finish(options);
}

Status LayerPlan::parse(const Goal& goal, const RunOptions& options, std::string_view text,
                        LayerPlan* result) {
  result->goal_ = goal;
  result->origin_.name = "text";
  plan::LayerPlan& parsed = result->plan_;
  const LayerShape& shape = goal.problem.shape;
  const DType dtype = goal.problem.dtype;
  std::string error;
  if (!plan::parse_plan_of(text, result->set(), shape.tie, &parsed, &error)) {
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  Status status = validate_problem(goal.problem);
  if (status.is_ok()) status = validate_plan(parsed, result->set(), shape, dtype);
  if (!status.is_ok()) return status;
  take_whole_strips(parsed.blocks.schedule, shape.n, &parsed.blocks.rows);
  status = adopt_parsed(parsed.level, parsed.tile, dtype, options, &result->M_);
  return status.is_ok() ? result->finish(options) : status;
}

Status LayerPlan::finish(const RunOptions& options) {
  threads_ = granted_threads(options.threads);
  index_t bytes = 0;
  const Status measured =
      is_forward() ? workspace_of(goal_.problem, plan::pass_of(plan_), threads_, &bytes)
                   : workspace_of(goal_.problem, plan_, goal_.gradients, threads_, &bytes);
  workspace_bytes_ = with_slack(bytes);
  return measured;
}

Status LayerPlan::check_problem(const LayerProblem& problem) const {
  const LayerShape& given = problem.shape;
  const LayerShape& shape = goal_.problem.shape;
  if (given.n != shape.n || given.m != shape.m || given.d != shape.d || given.dv != shape.dv ||
      given.mask != shape.mask || problem.batch != goal_.problem.batch ||
      problem.scale != goal_.problem.scale) {
    return Status::error(StatusCode::invalid_argument, "the plan is for %s, the inputs are %s",
                         to_text(goal_.problem).c_str(), to_text(problem).c_str());
  }
  if (static_cast<int>(given.tie) < static_cast<int>(shape.tie)) {
    return Status::error(StatusCode::invalid_argument,
                         "the plan is for %s, which is one memory: the inputs are not",
                         shape.tie == Tie::all ? "A1 = A2 = A3" : "A2 = A3");
  }
  return Status::ok();
}

template <class S>
Status LayerPlan::forward(const LayerInputs<S>& inputs, MatrixView<S> o, Compute<S>* lse,
                          void* workspace, index_t bytes, OverflowCounts* overflows) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if ((o.data == nullptr && o.rows * o.cols > 0) || (lse == nullptr && o.rows > 0)) {
    return Status::error(StatusCode::invalid_argument, "a plan computes both O and LSE");
  }
  Lent lent(workspace, bytes);
  return layer_forward<S>(inputs, plan::pass_of(plan_),
                          {threads_, nullptr, lent.get(), nullptr, overflows}, o, lse,
                          goal_.problem.shape.tie);
}

template <class S, class G>
Status LayerPlan::backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o,
                           MatrixView<const S> o, const Compute<S>* lse,
                           const LayerGradients<G, S>& gradients, void* workspace, index_t bytes,
                           OverflowCounts* overflows) const {
  const Status matches = check_problem(problem_of(inputs));
  if (!matches.is_ok()) return matches;
  if (set_of(gradients) != goal_.gradients) {
    return Status::error(StatusCode::invalid_argument,
                         "the gradients, or dk, are not those that the plan is for");
  }
  Lent lent(workspace, bytes);
  return layer_gradients<S, G>(inputs, d_o, o, lse, plan_,
                               {threads_, nullptr, lent.get(), nullptr, overflows}, gradients,
                               goal_.problem.shape.tie);
}

std::string LayerPlan::text() const { return plan::to_text(plan_, set(), goal_.problem.shape.tie); }

#define IOATTN_INSTANTIATE(S)                                                                  \
  template Status LayerPlan::forward(const LayerInputs<S>&, MatrixView<S>, Compute<S>*, void*, \
                                     index_t, OverflowCounts*) const
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                          \
  template Status LayerPlan::backward(                                                    \
      const LayerInputs<S>&, MatrixView<const S>, MatrixView<const S>, const Compute<S>*, \
      const LayerGradients<G, S>&, void*, index_t, OverflowCounts*) const
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
