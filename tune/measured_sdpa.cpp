#include "tune/measured_sdpa.hpp"

#include "tune/measure.hpp"

namespace ioattn::tune {
namespace {

std::size_t words(index_t heads, index_t rows, index_t cols) {
  return static_cast<std::size_t>(heads * rows * cols);
}

// run(observer, outputs) fills some of the outputs; the timed runs first, then the counted
// one.
template <class T, class Run>
SdpaReport measure(Pass pass, const SdpaProblem& problem, const plan::SdpaPlan& plan,
                   const plan::SdpaEstimate& estimate, SdpaOutputs<T>* outputs, const Run& run) {
  SdpaReport report;
  report.pass = pass;
  report.level = plan.level;
  report.M = estimate.M;
  report.plan_text = to_text(plan);
  report.isa = plan.isa;
  report.seconds = median_seconds([&] { require(run(nullptr, outputs)); });
  SdpaOutputs<T> counted = *outputs;
  instruments::IoCounter counter;
  require(run(&counter, &counted));
  for (std::vector<T> SdpaOutputs<T>::*output :
       {&SdpaOutputs<T>::o, &SdpaOutputs<T>::lse, &SdpaOutputs<T>::dq, &SdpaOutputs<T>::dk,
        &SdpaOutputs<T>::dv, &SdpaOutputs<T>::d_bias}) {
    if (!same_bits(outputs->*output, counted.*output)) {
      throw RunError(std::string("internal error: the ") + name_of(pass) +
                     " pass gave other bits when it was counted");
    }
  }
  const bool moves = !seen_keys(problem.shape.head()).is_empty();
  const theory::IoCost formula = moves ? estimate.cost.total() : theory::IoCost();
  check_count(counter, formula, problem.shape.mask, to_text(problem) + " (" + name_of(pass) + ")");
  report.count = counter.total();
  report.phases = counter.phases();
  report.formula = formula.words();
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
  json["formula"] = report.formula;
  json["phases"] = phases_json(report.phases);
  json["plan"] = report.plan_text;
  json["seconds"] = report.seconds;
  json["gflops"] = report.gflops;
  return json;
}

template <class T>
SdpaReport run_sdpa_forward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                            const api::RunOptions& options, SdpaOutputs<T>* outputs) {
  const SdpaShape& s = problem.shape;
  plan::SdpaPlan plan;
  plan::SdpaEstimate estimate;
  require(api::plan_sdpa(problem, options, &plan, &estimate));
  outputs->o.resize(words(s.all_heads(), s.n, s.dv));
  outputs->lse.resize(words(s.all_heads(), s.n, 1));
  const int threads = api::granted_threads(options.threads);
  SdpaReport report = measure(Pass::forward, problem, plan, estimate, outputs,
                              [&](Observer* observer, SdpaOutputs<T>* out) {
                                return api::sdpa_forward<T>(
                                    problem, inputs, plan, threads, observer,
                                    dense_tensor(out->o.data(), s.batch, s.heads, s.n, s.dv),
                                    dense_tensor(out->lse.data(), s.batch, s.heads, 1, s.n));
                              });
  return report;
}

template <class T>
SdpaReport run_sdpa_backward(const SdpaProblem& problem, const SdpaInputs<T>& inputs,
                             TensorView<const T> d_o, const api::RunOptions& options,
                             SdpaOutputs<T>* outputs) {
  const SdpaShape& s = problem.shape;
  plan::SdpaPlan plan;
  plan::SdpaEstimate estimate;
  const SdpaSet all = {true, true, true, false, s.has_bias()};
  require(api::plan_sdpa(problem, all, options, &plan, &estimate));
  outputs->dq.resize(words(s.all_heads(), s.n, s.d));
  outputs->dk.resize(words(s.all_kv_heads(), s.m, s.d));
  outputs->dv.resize(words(s.all_kv_heads(), s.m, s.dv));
  outputs->d_bias.resize(words(s.all_biases(), s.n, s.m));
  const int threads = api::granted_threads(options.threads);
  const api::SdpaForwardResults<T> forward = {
      d_o, dense_tensor<const T>(outputs->o.data(), s.batch, s.heads, s.n, s.dv),
      dense_tensor<const T>(outputs->lse.data(), s.batch, s.heads, 1, s.n)};
  SdpaReport report = measure(
      Pass::backward, problem, plan, estimate, outputs,
      [&](Observer* observer, SdpaOutputs<T>* out) {
        SdpaGradients<T> gradients;
        gradients.dq = dense_tensor(out->dq.data(), s.batch, s.heads, s.n, s.d);
        gradients.dk = dense_tensor(out->dk.data(), s.batch, s.kv_heads, s.m, s.d);
        gradients.dv = dense_tensor(out->dv.data(), s.batch, s.kv_heads, s.m, s.dv);
        if (s.has_bias()) {
          gradients.d_bias = dense_tensor(out->d_bias.data(), s.bias_batch, s.bias_heads, s.n, s.m);
        }
        return api::sdpa_backward<T>(problem, inputs, forward, plan, threads, observer, gradients);
      });
  return report;
}

#define IOATTN_INSTANTIATE(T)                                                        \
  template SdpaReport run_sdpa_forward(const SdpaProblem&, const SdpaInputs<T>&,     \
                                       const api::RunOptions&, SdpaOutputs<T>*);     \
  template SdpaReport run_sdpa_backward(const SdpaProblem&, const SdpaInputs<T>&,    \
                                        TensorView<const T>, const api::RunOptions&, \
                                        SdpaOutputs<T>*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::tune
