#include "tune/passes/measured_pass.hpp"

#include <algorithm>

#include "api/array_types.hpp"
#include "api/planning/layer_planning.hpp"
#include "api/search/layer_search.hpp"
#include "theory/gradients_cost.hpp"
#include "tune/command_error.hpp"
#include "tune/passes/measure.hpp"

namespace ioattn::tune {
namespace {

// A pass: runs as `measure_runs` says, and what theory says about it.
template <class Words, class Run>
PassReport measure(const PlannedPass& planned, const LayerShape& bounded, RunMode how, bool in_f32,
                   Words* words, const Run& run) {
  const GradientSet set = {.dX = true, .in_f32 = in_f32};
  const DType dtype = planned.problem.dtype;
  const auto rounded = planned.pass == Pass::forward ? api::rounded_results(dtype)
                                                     : api::rounded_results(dtype, set);
  const bool empty = is_empty(planned.pass, planned.problem.shape);
  const IoCost formula = empty ? IoCost()
                               : cost_of(planned.pass, planned.problem, planned.plan.schedule,
                                         planned.plan.blocks, in_f32);
  PassReport report = measure_runs(report_of(planned), planned.problem.shape.mask, formula, how,
                                   rounded, words, run);
  report.plan_text = to_text(planned.plan);
  report.gflops = report.seconds > 0 ? nominal_flops(planned) / report.seconds / 1e9 : 0;
  report.overflow = empty ? 0 : overflow_words(planned);
  const theory::AlgorithmClass algorithms = theory::class_of(planned.pass, planned.plan.schedule);
  set_bound(
      planned, algorithms,
      [&](index_t M) {
        return theory::lower_bound(planned.pass, algorithms, bounded, M, planned.problem.batch);
      },
      &report);
  return report;
}

}  // namespace

plan::LayerRequest request_for(Pass pass, const LayerProblem& problem,
                               const api::RunOptions& options) {
  LayerProblem at_least_one = problem;
  for (index_t LayerShape::*size :
       {&LayerShape::n, &LayerShape::m, &LayerShape::d, &LayerShape::dv}) {
    at_least_one.shape.*size = std::max<index_t>(problem.shape.*size, 1);
  }
  plan::LayerRequest request;
  require(api::plan_request(pass, at_least_one, options, &request));
  return request;
}

PlannedPass plan_pass(Pass pass, const LayerProblem& problem, const api::RunOptions& options) {
  std::optional<GradientSet> set;
  if (pass == Pass::backward) set.emplace().dX = true;
  plan::LayerPlan plan;
  plan::Estimate estimate;
  require(api::plan_layer(problem, set, options, &plan, &estimate));
  return {pass, problem, estimate.M, plan::pass_of(plan)};
}

PlannedPass plan_pass_or_auto(Pass pass, const LayerProblem& problem,
                              const api::RunOptions& options) {
  api::RunOptions any = options;
  any.schedule.reset();
  any.literal = false;
  if (!options.schedule) return plan_pass(pass, problem, any);
  if (exists(*options.schedule, pass)) {
    try {
      return plan_pass(pass, problem, options);
    } catch (const UsageError&) {  // does not fit: any other may
    }
  }
  try {
    return plan_pass(pass, problem, any);
  } catch (const UsageError&) {
    // Whoever asked for a schedule that stores n x m scores has room for them, which saves fast
    // memory.
    if (!stores_scores(*options.schedule)) throw;
    any.schedule = exists(*options.schedule, pass) ? *options.schedule : Schedule::paper_small;
    return plan_pass(pass, problem, any);
  }
}

PlannedPass planned(const plan::LayerRequest& request, const plan::Candidate& candidate) {
  const LayerProblem& problem = request.problem;
  return {request.pass,
          problem,
          request.M,
          {request.level, candidate.schedule, candidate.blocks, request.tile}};
}

double nominal_flops(const PlannedPass& planned) {
  const auto real = [](index_t size) { return static_cast<double>(size); };
  const LayerShape& shape = planned.problem.shape;
  const double n = real(shape.n), m = real(shape.m), d = real(shape.d), dv = real(shape.dv);
  const double pairs = real(visible_pairs(shape.mask, shape.n, shape.m));
  const bool g_form =
      has_form(planned.plan.schedule, Form::h) && planned.plan.blocks.form == Form::g;
  const double values = g_form ? pairs * d + n * d * dv : pairs * dv + m * d * dv;
  const double fma = planned.pass == Pass::forward ? n * d * d + pairs * d + values
                                                   : 2 * n * d * d + 2 * pairs * d + values;
  return 2 * fma * real(planned.problem.batch);
}

IoCost cost_of(Pass pass, const LayerProblem& problem, Schedule schedule, const Blocks& blocks,
               bool in_f32) {
  const theory::Batch batch = theory::batch_of(problem);
  if (pass == Pass::forward) {
    return theory::forward_cost(schedule, problem.shape, blocks, batch, problem.dtype).total();
  }
  LayerBlocks alone;
  alone.schedule = schedule;
  alone.rows = blocks;
  const GradientSet set = {.dX = true, .in_f32 = in_f32};
  return theory::gradients_cost(problem.shape, set, alone, batch, problem.dtype).total();
}

index_t overflow_words(const PlannedPass& planned) {
  const bool printed = planned.plan.schedule == Schedule::naive;
  const Blocks blocks = printed ? Blocks() : planned.plan.blocks;
  const IoCost cost = cost_of(planned.pass, planned.problem, planned.plan.schedule, blocks);
  return std::max<index_t>(cost.footprint - planned.M, 0);
}

PassReport report_of(const PlannedPass& planned) {
  PassReport report;
  report.pass = planned.pass;
  report.schedule = planned.plan.schedule;
  report.level = planned.plan.level;
  report.isa = planned.plan.tile.isa;
  const DType dtype = planned.problem.dtype;
  const bool widens = is_half(dtype) && planned.plan.schedule != Schedule::tile_fused;
  report.factors = widens ? DType::f32 : dtype;
  report.M = planned.M;
  report.regime = theory::regime(planned.problem.shape, planned.M);
  return report;
}

void set_bound(const PlannedPass& planned, theory::AlgorithmClass algorithms, const BoundFor& bound,
               PassReport* report) {
  const LayerShape& shape = planned.problem.shape;
  const auto bound_of_sizes = [&](index_t M) {
    if (is_empty(planned.pass, shape)) return no_bound(nothing_moves);
    // A3, which bounds count, is not read.
    if (shape.dv == 0) return no_bound("there are no values: no bound is proved for LSE alone");
    return bound(M);
  };
  set_bound(algorithms, bound_of_sizes, report);
}

template <class S>
PassReport run_forward(const LayerInputs<S>& inputs, const PlannedPass& planned, RunMode how,
                       ForwardResult<S>* result) {
  const LayerShape& shape = planned.problem.shape;
  const index_t rows = planned.problem.batch * shape.n;
  // One more, so that no array is null.
  result->values.o.assign(static_cast<std::size_t>(rows * shape.dv + 1), S{});
  result->values.lse.assign(static_cast<std::size_t>(rows + 1), 0);
  PassReport report =
      measure(planned, bounded_shape(inputs, shape), how, false, &result->values,
              [&](Observer* observer, OverflowCounts* overflows, ForwardValues<S>* values) {
                const MatrixView<S> o = {values->o.data(), shape.n, shape.dv, shape.dv};
                values->o.back() = S{};
                values->lse.back() = 0;
                return api::layer_forward<S>(
                    inputs, planned.plan,
                    {.threads = how.threads, .observer = observer, .overflows = overflows}, o,
                    values->lse.data());
              });
  result->o = {result->values.o.data(), shape.n, shape.dv, shape.dv};
  result->lse = result->values.lse.data();
  return report;
}

template <class S, class G>
PassReport run_backward(const LayerInputs<S>& inputs, MatrixView<const S> d_o,
                        MatrixView<const S> o, const Compute<S>* lse, const PlannedPass& planned,
                        RunMode how, std::vector<G>* dx) {
  const index_t d = planned.problem.shape.d;
  dx->assign(static_cast<std::size_t>(d * d), G{});
  return measure(planned, bounded_shape(inputs, planned.problem.shape), how, !std::is_same_v<S, G>,
                 dx, [&](Observer* observer, OverflowCounts* overflows, std::vector<G>* words) {
                   return api::layer_backward<S, G>(
                       inputs, d_o, o, lse, planned.plan,
                       {.threads = how.threads, .observer = observer, .overflows = overflows},
                       {words->data(), d, d, d});
                 });
}

#define IOATTN_INSTANTIATE(S)                                                         \
  template PassReport run_forward(const LayerInputs<S>&, const PlannedPass&, RunMode, \
                                  ForwardResult<S>*)
IOATTN_FOR_ARRAY_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

#define IOATTN_INSTANTIATE(S, G)                                                               \
  template PassReport run_backward(const LayerInputs<S>&, MatrixView<const S>,                 \
                                   MatrixView<const S>, const Compute<S>*, const PlannedPass&, \
                                   RunMode, std::vector<G>*)
IOATTN_FOR_GRADIENT_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
