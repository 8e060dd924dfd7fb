#include "tune/demo/demo_runs.hpp"

#include <algorithm>
#include <cmath>

#include "tune/command_error.hpp"

namespace ioattn::tune {
namespace {

// A NaN anywhere is a NaN here.
template <class T>
double relative_error(const T* out, const double* reference, std::size_t count) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double e = std::fabs(static_cast<double>(out[i]) - reference[i]);
    if (!(e <= difference)) difference = e;
    if (std::isnan(difference)) return difference;
    scale = std::max(scale, std::fabs(reference[i]));
  }
  return difference == 0 ? 0 : difference / scale;
}

template <class T>
LayerProblem problem_of(const LayerFiles<T>& files) {
  LayerProblem problem;
  problem.shape = shape_of(files.inputs());
  problem.dtype = dtype_of<T>::value;
  return problem;
}

// O and LSE for the backward pass, by any schedule that fits.
template <class T>
ForwardResult<T> forward_results(const LayerFiles<T>& files, const api::RunOptions& options) {
  api::RunOptions any = options;
  any.schedule = Schedule::naive;  // room for n x m scores is granted
  const PlannedPass forward = plan_pass_or_auto(Pass::forward, problem_of(files), any);
  ForwardResult<T> results;
  run_forward(files.inputs(), forward, {1, false}, &results);
  return results;
}

template <class T>
void run_row(const DemoCase<T>& demo, const ForwardResult<T>& results, const PlannedPass& planned,
             RunMode how, DemoRow* row) {
  const LayerInputs<T> inputs = demo.files.inputs();
  if (planned.pass == Pass::backward) {
    std::vector<T> dx;
    row->report =
        run_backward(inputs, demo.files.d_o.view(), results.o, results.lse, planned, how, &dx);
    row->error = relative_error(dx.data(), demo.golden_dx->data.data(), dx.size());
  } else {
    ForwardResult<T> output;
    row->report = run_forward(inputs, planned, how, &output);
    row->error = relative_error(output.o.data, demo.reference_o->data(), demo.reference_o->size());
  }
}

}  // namespace

std::string DemoRow::label() const {
  std::string text = name_of(candidate.schedule);
  if (has_form(candidate.schedule, Form::h)) {
    text += std::string(" ") + name_of(candidate.blocks.form) + "-form";
  }
  if (candidate.blocks.products == Products::stored) text += " stored";
  if (literal()) text += " literal";
  return text;
}

template <class T>
std::vector<DemoRow> run_demo_rows(const DemoCase<T>& demo, Pass pass, index_t M, bool all,
                                   RunMode how) {
  api::RunOptions options;
  options.M = M;
  plan::LayerRequest request;
  require(api::plan_request(pass, problem_of(demo.files), options, &request));
  request.outer_M = 0;  // one level at a time
  plan::Plan chosen;
  const bool has_plan = plan::make_plan(request, &chosen).is_ok();
  std::vector<plan::Candidate> list = plan::candidates(request);
  plan::LayerRequest literal = request;
  literal.literal = true;
  for (const plan::Candidate& candidate : plan::candidates(literal)) {
    if (candidate.blocks.literal && all) list.push_back(candidate);
  }

  ForwardResult<T> results;
  if (pass == Pass::backward) results = forward_results(demo.files, options);
  std::vector<DemoRow> rows;
  for (const plan::Candidate& candidate : list) {
    if (candidate.schedule == Schedule::naive && !all) continue;
    DemoRow row;
    row.dtype = dtype_of<T>::value;
    row.candidate = candidate;
    if (candidate.fits) {
      const PlannedPass pass_plan = planned(request, candidate);
      row.planned = has_plan && pass_plan.plan == chosen;
      run_row(demo, results, pass_plan, how, &row);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<double> reference_output(const LayerFiles<double>& files, int threads) {
  api::RunOptions options;
  options.schedule = Schedule::row_stream;
  const PlannedPass forward = plan_pass_or_auto(Pass::forward, problem_of(files), options);
  ForwardResult<double> results;
  run_forward(files.inputs(), forward, {threads, true}, &results);
  results.values.o.resize(static_cast<std::size_t>(results.o.rows * results.o.cols));
  return results.values.o;
}

template std::vector<DemoRow> run_demo_rows(const DemoCase<float>&, Pass, index_t, bool, RunMode);
template std::vector<DemoRow> run_demo_rows(const DemoCase<double>&, Pass, index_t, bool, RunMode);

}  // namespace ioattn::tune
