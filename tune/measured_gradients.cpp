#include "tune/measured_gradients.hpp"

#include "api/array_types.hpp"
#include "api/layer_search.hpp"
#include "theory/gradients_bounds.hpp"
#include "tune/measure.hpp"

namespace ioattn::tune {
namespace {

constexpr NamedGradient names[] = {
    {"dX", &GradientSet::dX, false},     {"dY", &GradientSet::dY, false},
    {"dA1", &GradientSet::dA1, true},    {"dA2", &GradientSet::dA2, true},
    {"dA3", &GradientSet::dA3, true},    {"dA", &GradientSet::dA, true},
    {"dW_Q", &GradientSet::dW_Q, false}, {"dW_K", &GradientSet::dW_K, false}};

// The matrices of a set in one array, which has room for all. S: of the weights.
template <class S, class T>
LayerGradients<T, S> lay_out(const LayerProblem& problem, const GradientSet& set, T* words) {
  const auto [n, m, d, e, tie, mask] = problem.shape;
  const auto next = [&words](bool wanted, index_t rows, index_t cols, index_t entries = 1) {
    if (!wanted) return MatrixView<T>{};
    const MatrixView<T> view = {words, rows, cols, cols};
    words += entries * rows * cols;
    return view;
  };
  LayerGradients<T, S> out;
  out.dx = next(set.dX, d, d);
  out.dy = next(set.dY, d, e);
  out.da1 = next(set.dA1, n, d, problem.batch);
  out.da2 = next(set.dA2, m, d, problem.batch);
  out.da3 = next(set.dA3, m, d, problem.batch);
  out.da = next(set.dA, m, d, problem.batch);
  out.dw_q = next(set.dW_Q, d, set.dk);
  out.dw_k = next(set.dW_K, d, set.dk);
  return out;
}

index_t words_of(const LayerProblem& problem, const GradientSet& set) {
  const auto [n, m, d, e, tie, mask] = problem.shape;
  index_t words = 0;
  if (set.dX) words += d * d;
  if (set.dY) words += d * e;
  if (set.dA1) words += problem.batch * n * d;
  for (const bool wanted : {set.dA2, set.dA3, set.dA}) words += wanted ? problem.batch * m * d : 0;
  for (const bool wanted : {set.dW_Q, set.dW_K}) words += wanted ? d * set.dk : 0;
  return words;
}

}  // namespace

std::span<const NamedGradient> named_gradients() { return names; }

PlannedGradients plan_gradients(const LayerProblem& problem, const GradientSet& set,
                                const api::RunOptions& options) {
  PlannedGradients result;
  result.set = set;
  plan::GradientEstimate estimate;
  require(api::plan_layer(problem, set, options, &result.plan, &estimate));
  const plan::GradientPlan& plan = result.plan;
  result.pass = {
      Pass::backward,
      problem,
      estimate.M,
      {plan.level, plan.blocks.keys.one_pass ? plan.blocks.by_keys : plan.blocks.schedule,
       plan.blocks.rows, plan.isa, plan.tile_rows, plan.tile_cols}};
  return result;
}

template <class S, class G>
PassReport run_gradients(const GradientInputs<S>& inputs, const PlannedGradients& planned,
                         RunMode how, GradientResults<G>* results) {
  const LayerProblem& problem = planned.pass.problem;
  const LayerShape& shape = problem.shape;
  const GradientSet& set = planned.set;
  const theory::IoCost formula =
      is_empty(shape) ? theory::IoCost()
                      : theory::gradients_cost(shape, set, planned.plan.blocks,
                                               theory::batch_of(problem), problem.dtype)
                            .total();
  // One word more, so that no array is null.
  results->words.assign(static_cast<std::size_t>(words_of(problem, set) + 1), G{});
  PassReport report = measure_runs(
      planned.pass, formula, how, api::rounded_results(problem.dtype, set), &results->words,
      [&](Observer* observer, OverflowCounts* overflows, std::vector<G>* words) {
        LayerGradients<G, S> out = lay_out<S>(problem, set, words->data());
        out.w_q = inputs.w_q;
        out.w_k = inputs.w_k;
        words->back() = G{};
        return api::layer_gradients<S, G>(inputs.layer, inputs.d_o, inputs.o, inputs.lse,
                                          planned.plan, how.threads, observer, out,
                                          {.overflows = overflows});
      });
  report.plan_text = to_text(planned.plan, set, shape.tie);
  const double fma = is_empty(shape) ? 0
                                     : static_cast<double>(theory::gradients_fma(
                                           shape, set, planned.plan.blocks, problem.batch));
  report.gflops = report.seconds > 0 ? 2 * fma / report.seconds / 1e9 : 0;
  const LayerShape bounded = bounded_shape(inputs.layer, shape);
  set_bound(
      [&](index_t M) {
        return theory::gradients_bounds(bounded, set, M, problem.batch)
            .best(theory::class_of(set, planned.plan.blocks, shape.tie));
      },
      &report);

  const LayerGradients<G, S> out = lay_out<S>(problem, set, results->words.data());
  const MatrixView<G> views[] = {out.dx,  out.dy, out.da1,  out.da2,
                                 out.da3, out.da, out.dw_q, out.dw_k};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (!(set.*names[i].wanted)) continue;
    results->matrices.push_back({names[i].name, views[i], names[i].is_per_entry});
  }
  return report;
}

#define IOATTN_INSTANTIATE(S, G)                                                                \
  template PassReport run_gradients(const GradientInputs<S>&, const PlannedGradients&, RunMode, \
                                    GradientResults<G>*)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
