#include "tune/passes/measured_sdpa.hpp"

#include <algorithm>

#include "theory/sdpa_bounds.hpp"
#include "tune/passes/measure.hpp"

namespace ioattn::tune {
namespace {

std::size_t words(index_t heads, index_t rows, index_t cols) {
  return static_cast<std::size_t>(heads * rows * cols);
}

// run(observer, overflows, outputs) fills some of the outputs; the timed runs first, then the
// counted one, which looks for overflows in the results that are rounded. bounds(M) are the lower
// bounds for M words.
template <class S, class G, class Bounds, class Run>
SdpaReport measure(const PlannedSdpa& planned, const Bounds& bounds,
                   const std::vector<api::RoundedResult>& rounded, SdpaOutputs<S, G>* outputs,
                   const Run& run) {
  const SdpaProblem& problem = planned.problem;
  const plan::SdpaPlan& plan = planned.plan;
  const plan::Estimate& estimate = planned.estimate;
  const Pass pass = planned.set ? Pass::backward : Pass::forward;
  SdpaReport report;
  report.pass = pass;
  report.level = plan.level;
  report.M = estimate.M;
  report.plan_text = to_text(plan);
  report.isa = plan.tile.isa;
  report.seconds = median_seconds([&] {
    ++report.runs;
    require(run(nullptr, nullptr, outputs));
  });
  SdpaOutputs<S, G> counted = *outputs;
  if (planned.set) {
    for (auto* gradient : {&counted.dq, &counted.dk, &counted.dv, &counted.d_bias})
      *gradient = poisoned(*gradient);
  } else {
    counted.o = poisoned(counted.o);
    counted.lse = poisoned(counted.lse);
  }
  instruments::IoCounter counter;
  instruments::CreatedMemory created(&counter);
  ++report.runs;
  OverflowCounts overflows;
  require(run(&created, &overflows, &counted));
  report.overflows = report_of(overflows, rounded);
  const bool all_same = same_bits(outputs->o, counted.o) && same_bits(outputs->lse, counted.lse) &&
                        same_bits(outputs->dq, counted.dq) && same_bits(outputs->dk, counted.dk) &&
                        same_bits(outputs->dv, counted.dv) &&
                        same_bits(outputs->d_bias, counted.d_bias);
  if (!all_same) {
    throw RunError(std::string("internal error: the ") + name_of(pass) +
                   " pass gave other bits when it was counted");
  }
  const bool moves = !seen_keys(problem.shape.head()).is_empty();
  const IoCost formula = moves ? estimate.cost.total() : IoCost();
  check_count(counter, formula, problem.shape.mask, to_text(problem) + " (" + name_of(pass) + ")");
  report.count = counter.total();
  report.created_memory = created.words();
  report.phases = counter.phases();
  report.formula = formula.words();
  report.bound_M = std::max(report.M, report.count.footprint);
  if (moves) {
    report.bound = bounds(report.bound_M, &report.algorithms);
  } else {
    report.bound = {0, "compulsory", "a size is 0, or no query sees a key: nothing moves"};
  }
  if (static_cast<double>(report.count.words()) < report.bound.words) {
    throw RunError(std::string("internal error: the ") + name_of(pass) +
                   " pass moved fewer words than the lower bound " + report.bound.name);
  }
  report.gflops =
      report.seconds > 0 ? 2 * static_cast<double>(estimate.fma) / report.seconds / 1e9 : 0;
  return report;
}

}  // namespace

Json io_json(const SdpaReport& report) {
  Json json;
  json["pass"] = name_of(report.pass);
  json["level"] = report.level;
  json["M"] = report.M;
  add_count(report.count, &json);
  json["created_memory"] = report.created_memory;
  json["formula"] = report.formula;
  json["class"] = name_of(report.algorithms);
  json["lower_bound"] = report.bound.words;
  json["bound"] = report.bound.name;
  json["bound_M"] = report.bound_M;
  json["assumption"] = report.bound.assumption;
  json["ratio"] = report.bound.words > 0 ? Json(report.ratio()) : Json();
  json["phases"] = phases_json(report.phases);
  json["overflows"] = overflows_json(report.overflows);
  json["plan"] = report.plan_text;
  json["seconds"] = report.seconds;
  json["runs"] = report.runs;
  json["gflops"] = report.gflops;
  return json;
}

PlannedSdpa plan_sdpa(const SdpaProblem& problem, const std::optional<SdpaSet>& set,
                      const api::RunOptions& options) {
  PlannedSdpa planned = {problem, set, {}, {}};
  require(api::plan_sdpa(problem, set, options, &planned.plan, &planned.estimate));
  return planned;
}

template <class S, class G>
SdpaReport run_sdpa_forward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs, int threads,
                            SdpaOutputs<S, G>* outputs) {
  const SdpaProblem& problem = planned.problem;
  const SdpaShape& s = problem.shape;
  outputs->o.resize(words(s.all_heads(), s.n, s.dv));
  outputs->lse.resize(words(s.all_heads(), s.n, 1));
  const auto bounds = [&](index_t M, theory::AlgorithmClass* algorithms) {
    return theory::sdpa_forward_bounds(s, M).best(*algorithms);
  };
  return measure(planned, bounds, api::rounded_results(problem.dtype), outputs,
                 [&](Observer* observer, OverflowCounts* overflows, SdpaOutputs<S, G>* out) {
                   return api::sdpa_forward<S>(
                       problem, inputs, planned.plan,
                       {.threads = threads, .observer = observer, .overflows = overflows},
                       dense_tensor(out->o.data(), s.batch, s.heads, s.n, s.dv),
                       dense_tensor(out->lse.data(), s.batch, s.heads, 1, s.n));
                 });
}

template <class S, class G>
SdpaReport run_sdpa_backward(const PlannedSdpa& planned, const SdpaInputs<S>& inputs,
                             TensorView<const S> d_o, int threads, SdpaOutputs<S, G>* outputs) {
  const SdpaProblem& problem = planned.problem;
  const SdpaShape& s = problem.shape;
  const SdpaSet& all = *planned.set;
  outputs->dq.resize(words(s.all_heads(), s.n, s.d));
  outputs->dk.resize(words(s.all_kv_heads(), s.m, s.d));
  outputs->dv.resize(words(s.all_kv_heads(), s.m, s.dv));
  outputs->d_bias.resize(words(s.all_biases(), s.n, s.m));
  const api::SdpaForwardResults<S> forward = {
      d_o, dense_tensor<const S>(outputs->o.data(), s.batch, s.heads, s.n, s.dv),
      dense_tensor<const Compute<S>>(outputs->lse.data(), s.batch, s.heads, 1, s.n)};
  const auto bounds = [&](index_t M, theory::AlgorithmClass* algorithms) {
    *algorithms = theory::class_of(all, planned.plan.blocks);
    return theory::sdpa_backward_bounds(s, all, M).best(*algorithms);
  };
  return measure(
      planned, bounds, api::rounded_results(problem.dtype, all), outputs,
      [&](Observer* observer, OverflowCounts* overflows, SdpaOutputs<S, G>* out) {
        SdpaGradients<G> gradients;
        gradients.dq = dense_tensor(out->dq.data(), s.batch, s.heads, s.n, s.d);
        gradients.dk = dense_tensor(out->dk.data(), s.batch, s.kv_heads, s.m, s.d);
        gradients.dv = dense_tensor(out->dv.data(), s.batch, s.kv_heads, s.m, s.dv);
        if (s.has_bias()) {
          gradients.d_bias = dense_tensor(out->d_bias.data(), s.bias_batch, s.bias_heads, s.n, s.m);
        }
        return api::sdpa_backward<S>(
            problem, inputs, forward, planned.plan,
            {.threads = threads, .observer = observer, .overflows = overflows}, gradients);
      });
}

#define IOATTN_INSTANTIATE(S, G)                                                      \
  template SdpaReport run_sdpa_forward(const PlannedSdpa&, const SdpaInputs<S>&, int, \
                                       SdpaOutputs<S, G>*);                           \
  template SdpaReport run_sdpa_backward(const PlannedSdpa&, const SdpaInputs<S>&,     \
                                        TensorView<const S>, int, SdpaOutputs<S, G>*)
IOATTN_INSTANTIATE(float, float);
IOATTN_INSTANTIATE(double, double);
IOATTN_INSTANTIATE(bf16, bf16);
IOATTN_INSTANTIATE(bf16, float);
IOATTN_INSTANTIATE(f16, f16);
IOATTN_INSTANTIATE(f16, float);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
