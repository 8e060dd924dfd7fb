#include "tune/passes/measured_sdpa.hpp"

#include <functional>
#include <utility>

#include "api/array_types.hpp"
#include "theory/sdpa_bounds.hpp"
#include "tune/passes/measure.hpp"

namespace ioattn::tune {
namespace {

std::size_t words(index_t heads, index_t rows, index_t cols) {
  return static_cast<std::size_t>(heads * rows * cols);
}

// One that is wanted, though it may have no elements: a null one would not be.
template <class T>
TensorView<T> tensor(std::vector<T>* values, index_t batch, index_t heads, index_t rows,
                     index_t cols) {
  static T none{};
  return dense_tensor(values->empty() ? &none : values->data(), batch, heads, rows, cols);
}

bool is_empty(const PlannedSdpa& planned) {
  const SdpaShape& s = planned.problem.shape;
  return planned.set ? api::is_trivial(s) : s.all_queries() == 0 || seen_keys(s.head()).is_empty();
}

// Plans are made as if every size were at least 1. Nothing is computed of gradients without
// elements.
void cost_sizes_of_zero(const api::RunOptions& options, PlannedSdpa* planned) {
  plan::SdpaRequest request;
  require(api::sdpa_request(planned->problem, options, &request));
  request.shape = planned->problem.shape;
  std::optional<SdpaSet> set = planned->set;
  if (set && request.shape.d == 0) set->dQ = set->dK = false;
  if (!is_empty(*planned)) {
    return plan::estimate_costs(request, set, planned->plan, &planned->estimate);
  }
  planned->estimate.cost = {};
  planned->estimate.fma = 0;
}

Schedule schedule_of(const PlannedSdpa& planned) {
  const SdpaBlocks& blocks = planned.plan.blocks;
  return planned.set ? blocks.by_keys : forward_schedule(blocks.rows);
}

// run(observer, overflows, values) fills the values of a pass; bounds(M) are its lower bounds.
template <class Values, class Run>
PassReport measure(const PlannedSdpa& planned, int threads, theory::AlgorithmClass algorithms,
                   const std::function<theory::BoundSet(index_t M)>& bounds,
                   const std::vector<api::RoundedResult>& rounded, Values* values, const Run& run) {
  const SdpaShape& shape = planned.problem.shape;
  const plan::Estimate& estimate = planned.estimate;
  PassReport report;
  report.pass = planned.set ? Pass::backward : Pass::forward;
  report.schedule = schedule_of(planned);
  report.level = planned.plan.level;
  report.isa = planned.plan.tile.isa;
  const DType dtype = planned.problem.dtype;
  const bool widens = is_half(dtype) && !multiplies_pairs(report.isa);
  report.factors = widens ? DType::f32 : dtype;
  report.M = estimate.M;
  report.regime = theory::regime(shape.head(), estimate.M);
  report.plan_text = to_text(planned.plan);
  report = measure_runs(std::move(report), shape.mask, estimate.cost.total(), {threads, true},
                        rounded, values, run);
  const auto bound = [&](index_t M) {
    if (is_empty(planned)) return no_bound(nothing_moves);
    if (shape.d == 0 || shape.dv == 0) return no_bound("a size is 0: no bound is proved");
    return bounds(M).best(algorithms);
  };
  set_bound(algorithms, bound, &report);
  report.gflops =
      report.seconds > 0 ? 2 * static_cast<double>(estimate.fma) / report.seconds / 1e9 : 0;
  return report;
}

}  // namespace

template <class G>
bool same_bits(const SdpaGradientValues<G>& p, const SdpaGradientValues<G>& q) {
  return same_bits(p.dq, q.dq) && same_bits(p.dk, q.dk) && same_bits(p.dv, q.dv) &&
         same_bits(p.d_bias, q.d_bias);
}
template <class G>
SdpaGradientValues<G> poisoned(const SdpaGradientValues<G>& like) {
  return {poisoned(like.dq), poisoned(like.dk), poisoned(like.dv), poisoned(like.d_bias)};
}

PlannedSdpa plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                      const api::RunOptions& options) {
  PlannedSdpa planned = {problem, set, {}, {}};
  require(api::plan_sdpa(problem, set, options, &planned.plan, &planned.estimate));
  const SdpaShape& s = problem.shape;
  if (is_empty(planned) || s.d == 0 || s.dv == 0) cost_sizes_of_zero(options, &planned);
  return planned;
}

template <class S>
PassReport run_sdpa_forward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs, int threads,
                            ForwardValues<S>* values) {
  const SdpaProblem& problem = planned.problem;
  const SdpaShape& s = problem.shape;
  values->o.resize(words(s.all_heads(), s.n, s.dv));
  values->lse.resize(words(s.all_heads(), s.n, 1));
  return measure(
      planned, threads, theory::AlgorithmClass::F,
      [&](index_t M) { return theory::sdpa_forward_bounds(s, M); },
      api::rounded_results(problem.dtype), values,
      [&](Observer* observer, OverflowCounts* overflows, ForwardValues<S>* out) {
        return api::sdpa_forward<S>(
            problem, inputs, planned.plan,
            {.threads = threads, .observer = observer, .overflows = overflows},
            tensor(&out->o, s.batch, s.heads, s.n, s.dv),
            tensor(&out->lse, s.batch, s.heads, 1, s.n));
      });
}

template <class S, class G>
PassReport run_sdpa_backward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs,
                             TensorView<const S> d_o, const ForwardValues<S>& forward, int threads,
                             SdpaGradientValues<G>* values) {
  const SdpaProblem& problem = planned.problem;
  const SdpaShape& s = problem.shape;
  const SdpaSet& all = *planned.set;
  values->dq.resize(words(s.all_heads(), s.n, s.d));
  values->dk.resize(words(s.all_kv_heads(), s.m, s.d));
  values->dv.resize(words(s.all_kv_heads(), s.m, s.dv));
  values->d_bias.resize(words(s.all_biases(), s.n, s.m));
  const api::SdpaForwardResults<S> results = {
      d_o, dense_tensor<const S>(forward.o.data(), s.batch, s.heads, s.n, s.dv),
      dense_tensor<const Compute<S>>(forward.lse.data(), s.batch, s.heads, 1, s.n)};
  return measure(
      planned, threads, theory::class_of(all, planned.plan.blocks),
      [&](index_t M) { return theory::sdpa_backward_bounds(s, all, M); },
      api::rounded_results(problem.dtype, all), values,
      [&](Observer* observer, OverflowCounts* overflows, SdpaGradientValues<G>* out) {
        SdpaGradients<G> gradients;
        gradients.dq = tensor(&out->dq, s.batch, s.heads, s.n, s.d);
        gradients.dk = tensor(&out->dk, s.batch, s.kv_heads, s.m, s.d);
        gradients.dv = tensor(&out->dv, s.batch, s.kv_heads, s.m, s.dv);
        if (s.has_bias()) {
          gradients.d_bias = tensor(&out->d_bias, s.bias_batch, s.bias_heads, s.n, s.m);
        }
        return api::sdpa_backward<S>(
            problem, inputs, results, planned.plan,
            {.threads = threads, .observer = observer, .overflows = overflows}, gradients);
      });
}

#define IOATTN_INSTANTIATE(S)                                                         \
  template PassReport run_sdpa_forward(const PlannedSdpa&, const SdpaInputs<S>&, int, \
                                       ForwardValues<S>*)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                           \
  template PassReport run_sdpa_backward(const PlannedSdpa&, const SdpaInputs<S>&,          \
                                        TensorView<const S>, const ForwardValues<S>&, int, \
                                        SdpaGradientValues<G>*)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
