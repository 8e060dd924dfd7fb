#include "api/sdpa.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/layer_checks.hpp"
#include "api/sdpa_plan_cache.hpp"
#include "api/tensor_check.hpp"
#include "base/checked_size.hpp"
#include "schedules/sdpa.hpp"

namespace ioattn::api {
namespace {

Status invalid_size(const char* message) {
  return Status::error(StatusCode::invalid_argument, "%s", message);
}

// Sizes of 0 cost nothing: blocks are chosen for at least 1.
Status sdpa_request(const SdpaProblem& problem, const RunOptions& options,
                    plan::SdpaRequest* request) {
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  if (options.schedule && *options.schedule != Schedule::row_stream) {
    return Status::error(StatusCode::unsupported, "SDPA is computed by row_stream, not by %s",
                         name_of(*options.schedule));
  }
  request->shape = problem.shape;
  for (index_t SdpaShape::*size : {&SdpaShape::batch, &SdpaShape::heads, &SdpaShape::kv_heads,
                                   &SdpaShape::n, &SdpaShape::m, &SdpaShape::d, &SdpaShape::dv}) {
    request->shape.*size = std::max<index_t>(request->shape.*size, 1);
  }
  request->dtype = problem.dtype;
  request->memory_limit_bytes = options.memory_limit_bytes;
  // The level, M and the register tile are those of a layer problem.
  plan::PlanRequest layer;
  status = plan_request(Pass::forward, {{1, 1, 1, 1, Tie::none, {}}, problem.dtype, 0, 1, 1},
                        options, &layer);
  request->level = layer.level;
  request->M = layer.M;
  request->outer_M = layer.outer_M;
  request->tile = layer.tile;
  return status;
}

// Nothing is computed for a view without elements.
template <class T>
void drop_empty(TensorView<T>* view) {
  if (view->batch * view->heads * view->rows * view->cols == 0) view->data = nullptr;
}

template <class T>
void fill_heads(const TensorView<T>& view, T value) {
  if (view.data == nullptr) return;
  for (index_t b = 0; b < view.batch; ++b)
    for (index_t h = 0; h < view.heads; ++h) fill(view.matrix(b, h), value);
}

template <class T>
void check_inputs(const SdpaInputs<T>& in, TensorCheck* check) {
  check->input<T>("Q", in.q);
  check->input<T>("K", in.k);
  check->input<T>("V", in.v);
}

// Blocks positive where the passes use them.
Status check_blocks(const SdpaBlocks& blocks, bool keys) {
  const Blocks& rows = blocks.rows;
  const bool valid = rows.r > 0 && rows.c > 0 && rows.rho > 0 && rows.form == Form::h &&
                     rows.products == Products::stored &&
                     (!keys || (blocks.keys.c > 0 && blocks.keys.rho > 0));
  return valid ? Status::ok() : invalid_size("the plan is none of this SDPA pass");
}

// What is estimated besides is not kept.
Status plan_any(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                const RunOptions& options, plan::SdpaPlan* plan, plan::SdpaEstimate* estimate) {
  plan::SdpaRequest request;
  Status status = sdpa_request(problem, options, &request);
  if (!status.is_ok()) return status;
  if (estimate == nullptr && find_sdpa_plan(request, set, plan)) return Status::ok();
  status = set ? plan::make_sdpa_plan(request, *set, plan, estimate)
               : plan::make_sdpa_plan(request, plan, estimate);
  if (status.is_ok()) keep_sdpa_plan(request, set, *plan);
  return status;
}

}  // namespace

Status validate_problem(const SdpaProblem& problem) {
  const SdpaShape& s = problem.shape;
  for (const index_t size : {s.batch, s.heads, s.kv_heads, s.n, s.m, s.d, s.dv}) {
    if (size < 0) return invalid_size("a size is negative");
  }
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0) {
    return Status::error(StatusCode::invalid_argument,
                         "%lld query heads are no multiple of %lld heads of keys",
                         static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads));
  }
  if (!std::isfinite(problem.scale)) return invalid_size("the scale is not finite");
  // The largest figures anywhere: multiply-adds, words and bytes of all passes.
  const CheckedSize n = CheckedSize(s.n) + 1, m = CheckedSize(s.m) + 1;
  const CheckedSize width = CheckedSize(s.d) + CheckedSize(s.dv) + 1;
  const CheckedSize heads = (CheckedSize(s.batch) + 1) * (CheckedSize(s.heads) + 1);
  const CheckedSize pairs = n * m * width * heads * CheckedSize(16);
  const CheckedSize products = (n + m) * width * width * CheckedSize(16);
  if (!pairs.overflow() && !products.overflow()) return Status::ok();
  return Status::error(StatusCode::size_overflow, "%s: the work does not fit in 64 bits",
                       to_text(problem).c_str());
}

int threads_for(const SdpaProblem& problem, const RunOptions& options) {
  constexpr index_t fma_worth_a_thread = index_t(1) << 19;  // some 30 microseconds
  const SdpaShape& s = problem.shape;
  const index_t fma = s.all_heads() * s.n * s.m * (s.d + s.dv);
  return static_cast<int>(
      std::min<index_t>(granted_threads(options.threads), 1 + fma / fma_worth_a_thread));
}

Status plan_sdpa(const SdpaProblem& problem, const RunOptions& options, plan::SdpaPlan* plan,
                 plan::SdpaEstimate* estimate) {
  return plan_any(problem, std::nullopt, options, plan, estimate);
}

Status plan_sdpa(const SdpaProblem& problem, const SdpaSet& set, const RunOptions& options,
                 plan::SdpaPlan* plan, plan::SdpaEstimate* estimate) {
  return plan_any(problem, set, options, plan, estimate);
}

template <class T>
Status sdpa_forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                    const plan::SdpaPlan& plan, int threads, Observer* observer, TensorView<T> o,
                    TensorView<T> lse) {
  const SdpaShape& shape = problem.shape;
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  TensorCheck check;
  check_inputs(inputs, &check);
  if (o.data != nullptr) check.output<T>("O", o);
  if (lse.data != nullptr) check.output<T>("LSE", lse);
  if (!check.status().is_ok()) return check.status();
  if (status = check_blocks(plan.blocks, false); !status.is_ok()) return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  drop_empty(&o);
  drop_empty(&lse);
  if (o.data == nullptr && lse.data == nullptr) return Status::ok();
  if (seen_keys(shape.head()).is_empty()) {
    fill_heads(o, T(0));
    fill_heads(lse, -std::numeric_limits<T>::infinity());
    return Status::ok();
  }
  schedules::SdpaForwardTask<T> task;
  task.shape = shape;
  task.in = inputs;
  task.scale = static_cast<T>(scale_of(problem));
  task.o = o;
  task.lse = lse;
  task.blocks = plan.blocks.rows;
  task.kernels = &kernels->table<T>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  return schedules::sdpa_forward(task);
}

template <class T>
Status sdpa_backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                     const SdpaForwardResults<T>& forward, const plan::SdpaPlan& plan, int threads,
                     Observer* observer, const SdpaGradients<T>& gradients) {
  const SdpaShape& shape = problem.shape;
  Status status = validate_problem(problem);
  if (!status.is_ok()) return status;
  SdpaGradients<T> out = gradients;
  TensorCheck check;
  check_inputs(inputs, &check);
  check.input<T>("dO", forward.d_o);
  if (forward.o.data != nullptr || out.set().delta()) check.input<T>("O", forward.o);
  if (forward.lse.data != nullptr || !out.set().is_empty()) check.input<T>("LSE", forward.lse);
  if (out.dq.data != nullptr) check.output<T>("dQ", out.dq);
  if (out.dk.data != nullptr) check.output<T>("dK", out.dk);
  if (out.dv.data != nullptr) check.output<T>("dV", out.dv);
  if (!check.status().is_ok()) return check.status();
  drop_empty(&out.dq);
  drop_empty(&out.dk);
  drop_empty(&out.dv);
  if (out.set().is_empty()) return Status::ok();
  if (status = check_blocks(plan.blocks, out.set().keys()); !status.is_ok()) return status;
  const kernels::Kernels* kernels = nullptr;
  if (status = kernels_of(plan.isa, &kernels); !status.is_ok()) return status;

  if (shape.n == 0 || shape.dv == 0 || seen_keys(shape.head()).is_empty()) {
    if (out.accumulate) return Status::ok();
    for (const TensorView<T>& view : {out.dq, out.dk, out.dv}) fill_heads(view, T(0));
    return Status::ok();
  }
  schedules::SdpaBackwardTask<T> task;
  task.shape = shape;
  task.in = inputs;
  task.scale = static_cast<T>(scale_of(problem));
  task.d_o = forward.d_o;
  task.o = forward.o;
  task.lse = forward.lse;
  task.out = out;
  task.blocks = plan.blocks;
  task.kernels = &kernels->table<T>();
  task.threads = std::max(threads, 1);
  task.observer = observer;
  return schedules::sdpa_backward(task);
}

#define IOATTN_INSTANTIATE(T)                                                                   \
  template Status sdpa_forward(const SdpaProblem&, const SdpaInputs<T>&, const plan::SdpaPlan&, \
                               int, Observer*, TensorView<T>, TensorView<T>);                   \
  template Status sdpa_backward(const SdpaProblem&, const SdpaInputs<T>&,                       \
                                const SdpaForwardResults<T>&, const plan::SdpaPlan&, int,       \
                                Observer*, const SdpaGradients<T>&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::api
