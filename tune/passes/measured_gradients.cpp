#include "tune/passes/measured_gradients.hpp"

#include <utility>

#include "api/array_types.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/search/layer_search.hpp"
#include "theory/gradients_bounds.hpp"
#include "tune/passes/measure.hpp"

namespace ioattn::tune {
namespace {

// The matrices of a set in one array, which has room for all. S: of the weights.
template <class S, class T>
LayerGradients<T, S> lay_out(const LayerProblem& problem, const GradientSet& set, T* words) {
  LayerGradients<T, S> out;
  const auto next = [&words](index_t rows, index_t cols) {
    return MatrixView<T>{std::exchange(words, words + rows * cols), rows, cols, cols};
  };
  take_gradients(problem.shape, set, problem.batch, next, &out);
  return out;
}

}  // namespace

PlannedGradients plan_gradients(const LayerProblem& problem, const GradientSet& set,
                                const api::RunOptions& options) {
  PlannedGradients result;
  result.set = set;
  plan::Estimate estimate;
  require(api::plan_layer(problem, set, options, &result.plan, &estimate));
  const plan::LayerPlan& plan = result.plan;
  const LayerBlocks& blocks = plan.blocks;
  const GradientSteps steps = steps_of(set, problem.shape.tie, blocks.rows.form);
  // The pass over the queries or, if there is none, over the keys.
  const bool by_keys = has_key_pass(steps, blocks) && !has_row_pass(steps, blocks);
  result.pass = {Pass::backward,
                 problem,
                 estimate.M,
                 {plan.level, by_keys ? blocks.by_keys : blocks.schedule, blocks.rows, plan.tile}};
  return result;
}

template <class S, class G>
PassReport run_gradients(const GradientInputs<S>& inputs, const PlannedGradients& planned,
                         RunMode how, GradientResults<G>* results) {
  const LayerProblem& problem = planned.pass.problem;
  const LayerShape& shape = problem.shape;
  const GradientSet& set = planned.set;
  const IoCost formula = is_empty(Pass::backward, shape)
                             ? IoCost()
                             : theory::gradients_cost(shape, set, planned.plan.blocks,
                                                      theory::batch_of(problem), problem.dtype)
                                   .total();
  // One word more, so that no array is null.
  results->words.assign(
      static_cast<std::size_t>(gradient_numbers(problem.shape, set, problem.batch) + 1), G{});
  PassReport report = measure_runs(
      report_of(planned.pass), shape.mask, formula, how, api::rounded_results(problem.dtype, set),
      &results->words, [&](Observer* observer, OverflowCounts* overflows, std::vector<G>* words) {
        LayerGradients<G, S> out = lay_out<S>(problem, set, words->data());
        out.w_q = inputs.w_q;
        out.w_k = inputs.w_k;
        words->back() = G{};
        return api::layer_gradients<S, G>(
            inputs.layer, inputs.d_o, inputs.o, inputs.lse, planned.plan,
            {.threads = how.threads, .observer = observer, .overflows = overflows}, out);
      });
  report.plan_text = to_text(planned.plan, set, shape.tie);
  const double fma = is_empty(Pass::backward, shape)
                         ? 0
                         : static_cast<double>(theory::gradients_fma(
                               shape, set, planned.plan.blocks, problem.batch));
  report.gflops = report.seconds > 0 ? 2 * fma / report.seconds / 1e9 : 0;
  const LayerShape bounded = bounded_shape(inputs.layer, shape);
  const theory::AlgorithmClass algorithms = theory::class_of(set, planned.plan.blocks, shape.tie);
  set_bound(
      planned.pass, algorithms,
      [&](index_t M) {
        return theory::gradients_bounds(bounded, set, M, problem.batch).best(algorithms);
      },
      &report);

  const LayerGradients<G, S> out = lay_out<S>(problem, set, results->words.data());
  for (std::size_t k = 0; k < gradient_count; ++k) {
    const auto& [name, operand, wanted, rows, cols, by_entry] = named_gradients[k];
    if (set.*wanted) results->matrices.push_back({name, out.*out.matrices[k], by_entry});
  }
  return report;
}

#define IOATTN_INSTANTIATE(S, G)                                                                \
  template PassReport run_gradients(const GradientInputs<S>&, const PlannedGradients&, RunMode, \
                                    GradientResults<G>*)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
