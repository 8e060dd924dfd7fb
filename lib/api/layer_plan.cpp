#include "api/layer_plan.hpp"

#include <cstdint>

#include "api/layer.hpp"
#include "api/validate.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"

namespace ioattn::api {
namespace {

// Lent memory starts at any address, slots at multiples of the alignment.
constexpr index_t alignment = index_t(AlignedBuffer::alignment);

index_t with_slack(index_t bytes) { return bytes == 0 ? 0 : bytes + alignment - 1; }

// The aligned part of lent memory, or null where none is lent.
class Lent {
 public:
  Lent(void* memory, index_t bytes) {
    if (memory == nullptr) return;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const index_t skipped = index_t((std::uintptr_t(alignment) - address) % alignment);
    memory_ = schedules::CallerMemory(static_cast<std::byte*>(memory) + skipped,
                                      std::max<index_t>(bytes - skipped, 0));
    lent_ = true;
  }
  schedules::CallerMemory* get() { return lent_ ? &memory_ : nullptr; }

 private:
  schedules::CallerMemory memory_;
  bool lent_ = false;
};

}  // namespace

Status LayerPlan::create(Pass pass, const LayerProblem& problem, const RunOptions& options,
                         LayerPlan* result) {
  result->pass_ = pass;
  result->problem_ = problem;
  plan::PlanRequest request;
  const Status planned = plan_pass(pass, problem, options, &result->plan_, &request);
  if (!planned.is_ok()) return planned;
  result->M_ = request.M;
  return result->finish(options);
}

Status LayerPlan::parse(Pass pass, const LayerProblem& problem, const RunOptions& options,
                        std::string_view text, LayerPlan* result) {
  result->pass_ = pass;
  result->problem_ = problem;
  std::string error;
  if (!plan::parse_plan(text, &result->plan_, &error)) {
    return Status::error(StatusCode::invalid_argument, "%.200s", error.c_str());
  }
  Status status = validate_shape(problem.shape);
  if (status.is_ok()) status = validate_plan(pass, result->plan_);
  if (!status.is_ok()) return status;
  const plan::Plan& plan = result->plan_;
  const kernels::Kernels* kernels = kernels::find_kernels(plan.isa);
  if (kernels == nullptr || !machine::this_machine().isa.has(plan.isa)) {
    return Status::error(StatusCode::unsupported, "the plan's ISA %s is not available here",
                         name_of(plan.isa));
  }
  const TileShape tile = kernels->tile(problem.dtype);
  if (tile.rows != plan.tile_rows || tile.cols != plan.tile_cols) {
    return Status::error(StatusCode::invalid_argument,
                         "the plan's register tile is %dx%d, but that of %s is %dx%d",
                         plan.tile_rows, plan.tile_cols, name_of(plan.isa), tile.rows, tile.cols);
  }
  if (plan.level == "M") {
    result->M_ = options.M;  // 0: what the plan itself needs
  } else {
    const machine::CacheLevel* cache = machine::this_machine().cache(plan.level[1] - '0');
    if (cache == nullptr) {
      return Status::error(StatusCode::unsupported, "no %s cache was found", plan.level.c_str());
    }
    result->M_ = machine::fast_memory(*cache, problem.dtype).words;
  }
  return result->finish(options);
}

Status LayerPlan::finish(const RunOptions& options) {
  threads_ = granted_threads(options.threads);
  index_t bytes = 0;
  const Status measured = workspace_of(pass_, problem_, plan_, threads_, &bytes);
  workspace_bytes_ = with_slack(bytes);
  return measured;
}

Status LayerPlan::check_shape(const LayerShape& given) const {
  const LayerShape& shape = problem_.shape;
  if (given.n != shape.n || given.m != shape.m || given.d != shape.d || given.dv != shape.dv) {
    return Status::error(StatusCode::invalid_argument, "the plan is for %s, the inputs are %s",
                         to_text(problem_).c_str(),
                         to_text(LayerProblem{given, problem_.dtype, 0}).c_str());
  }
  if (static_cast<int>(given.tie) < static_cast<int>(shape.tie)) {
    return Status::error(StatusCode::invalid_argument,
                         "the plan is for %s, which is one memory: the inputs are not",
                         shape.tie == Tie::all ? "A1 = A2 = A3" : "A2 = A3");
  }
  return Status::ok();
}

template <class T>
Status LayerPlan::forward(const LayerInputs<T>& inputs, MatrixView<T> o, T* lse, void* workspace,
                          index_t bytes) const {
  const Status matches = check_shape(shape_of(inputs));
  if (!matches.is_ok()) return matches;
  if ((o.data == nullptr && o.rows * o.cols > 0) || (lse == nullptr && o.rows > 0)) {
    return Status::error(StatusCode::invalid_argument, "a plan computes both O and LSE");
  }
  Lent lent(workspace, bytes);
  return layer_forward<T>(inputs, plan_, threads_, nullptr, o, lse,
                          {lent.get(), problem_.shape.tie});
}

template <class T>
Status LayerPlan::backward(const LayerInputs<T>& inputs, MatrixView<const T> d_o,
                           MatrixView<const T> o, const T* lse, MatrixView<T> dx, void* workspace,
                           index_t bytes) const {
  const Status matches = check_shape(shape_of(inputs));
  if (!matches.is_ok()) return matches;
  Lent lent(workspace, bytes);
  return layer_backward<T>(inputs, d_o, o, lse, plan_, threads_, nullptr, dx,
                           {lent.get(), problem_.shape.tie});
}

std::string LayerPlan::text() const { return plan::to_text(plan_); }

#define IOATTN_INSTANTIATE(T)                                                                  \
  template Status LayerPlan::forward(const LayerInputs<T>&, MatrixView<T>, T*, void*, index_t) \
      const;                                                                                   \
  template Status LayerPlan::backward(const LayerInputs<T>&, MatrixView<const T>,              \
                                      MatrixView<const T>, const T*, MatrixView<T>, void*,     \
                                      index_t) const
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
