#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

#include "api/array_types.hpp"
#include "base/half.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/files/npy_outputs.hpp"
#include "tune/files/npy_tensor.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measured_sdpa.hpp"
#include "tune/reports/outcome_report.hpp"

namespace ioattn::tune {
namespace {

struct SdpaOptions {
  std::string q, k, v, bias, d_o;
  std::optional<double> scale;
  ArrayOptions arrays;
};

// The inputs in memory; bias and d_o have no elements if they were not given.
template <class T>
struct SdpaFiles {
  Tensor<T> q, k, v, bias, d_o;
  SdpaInputs<T> inputs() const { return {q.view(), k.view(), v.view(), bias.view()}; }
};

template <class T>
std::string shape_text(const Tensor<T>& t) {
  return fmt::format("[{}, {}, {}, {}]", t.batch, t.heads, t.rows, t.cols);
}

template <class T>
void check_shape_of(const char* name, const std::string& path, const Tensor<T>& tensor,
                    const std::array<index_t, 4>& wanted) {
  const auto [batch, heads, rows, cols] = wanted;
  if (tensor.batch == batch && tensor.heads == heads && tensor.rows == rows &&
      tensor.cols == cols) {
    return;
  }
  throw UsageError(fmt::format("{}: {} is {}, not [{}, {}, {}, {}] as the other inputs ask", path,
                               name, shape_text(tensor), batch, heads, rows, cols));
}

template <class T>
SdpaFiles<T> read_files(const SdpaOptions& options) {
  SdpaFiles<T> files;
  files.q = read_npy_tensor<T>(options.q);
  files.k = read_npy_tensor<T>(options.k);
  files.v = read_npy_tensor<T>(options.v);
  const Tensor<T>&q = files.q, &k = files.k, &v = files.v;
  check_shape_of("K", options.k, k, {q.batch, k.heads, k.rows, q.cols});
  check_shape_of("V", options.v, v, {q.batch, k.heads, k.rows, v.cols});
  if (!options.d_o.empty()) {
    files.d_o = read_npy_tensor<T>(options.d_o);
    check_shape_of("dO", options.d_o, files.d_o, {q.batch, q.heads, q.rows, v.cols});
  }
  if (!options.bias.empty()) {
    files.bias = read_npy_tensor<T>(options.bias);
    const Tensor<T>& bias = files.bias;
    check_shape_of("the bias", options.bias, bias,
                   {bias.batch == 1 ? 1 : q.batch, bias.heads == 1 ? 1 : q.heads, q.rows, k.rows});
  }
  return files;
}

template <class T>
void warn_of_not_finite(const SdpaFiles<T>& files) {
  std::string names;
  const auto note = [&](const char* name, const Tensor<T>& tensor) {
    const auto is_finite = [](T value) { return std::isfinite(to_compute(value)); };
    if (std::all_of(tensor.data.begin(), tensor.data.end(), is_finite)) return;
    names += (names.empty() ? "" : ", ") + std::string(name);
  };
  note("Q", files.q);
  note("K", files.k);
  note("V", files.v);
  // Of a bias -inf is a mask.
  const auto is_usual = [](T value) {
    return std::isfinite(to_compute(value)) || to_compute(value) < 0;
  };
  if (!std::all_of(files.bias.data.begin(), files.bias.data.end(), is_usual)) {
    names += (names.empty() ? "" : ", ") + std::string("the bias");
  }
  note("dO", files.d_o);
  if (!names.empty())
    std::fprintf(stderr, "ioattn: warning: NaN or Inf in %s, as %s\n", names.c_str(),
                 name_of(dtype_of<T>::value));
}

// The dimensions that the file of an input had, with other rows and columns.
template <class T>
std::vector<index_t> shape_like(const Tensor<T>& tensor, std::vector<index_t> last) {
  std::vector<index_t> shape;
  if (tensor.rank > 3) shape.push_back(tensor.batch);
  if (tensor.rank > 2) shape.push_back(tensor.heads);
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}

std::vector<std::string> names_of(const SdpaOptions& options) {
  std::vector<std::string> names = {"O", "LSE"};
  if (options.d_o.empty()) return names;
  for (const char* name : {"dQ", "dK", "dV"}) names.push_back(name);
  if (!options.bias.empty()) names.push_back("dBias");
  return names;
}

template <class T, class G>
void write_results(const SdpaOptions& options, const SdpaFiles<T>& files,
                   const ForwardValues<T>& results, const SdpaGradientValues<G>& gradients,
                   NpyOutputs* outputs) {
  const Tensor<T>&q = files.q, &k = files.k, &v = files.v;
  const auto write = [&](const char* name, const auto& values, const std::vector<index_t>& shape) {
    outputs->write(name, values.data(), shape);
  };
  write("O", results.o, shape_like(q, {q.rows, v.cols}));
  write("LSE", results.lse, shape_like(q, {q.rows}));
  if (!options.d_o.empty()) {
    write("dQ", gradients.dq, shape_like(q, {q.rows, q.cols}));
    write("dK", gradients.dk, shape_like(k, {k.rows, k.cols}));
    write("dV", gradients.dv, shape_like(v, {v.rows, v.cols}));
    const Tensor<T>& bias = files.bias;
    if (!options.bias.empty())
      write("dBias", gradients.d_bias, shape_like(bias, {bias.rows, bias.cols}));
  }
  outputs->keep();
}

// Gradients are of type G.
template <class T, class G>
Outcome run(const SdpaOptions& options) {
  const SdpaFiles<T> files = read_files<T>(options);
  warn_of_not_finite(files);
  SdpaProblem problem;
  SdpaShape& shape = problem.shape;
  shape = {files.q.batch, files.q.heads, files.k.heads, files.q.rows,
           files.k.rows,  files.q.cols,  files.v.cols,  {}};
  shape.mask = options.arrays.mask.of(shape.n, shape.m);
  problem.dtype = dtype_of<T>::value;
  problem.scale = options.scale.value_or(0);
  if (!options.bias.empty()) {
    shape.bias_batch = files.bias.batch;
    shape.bias_heads = files.bias.heads;
  }
  require(api::validate_problem(problem));
  const api::RunOptions& how = options.arrays.run;
  std::optional<PlannedSdpa> backward;
  if (!options.d_o.empty()) {
    const bool in_f32 = !std::is_same_v<T, G>;
    backward = plan_sdpa(
        problem,
        SdpaSet{.dQ = true, .dK = true, .dV = true, .dBias = shape.has_bias(), .in_f32 = in_f32},
        how);
  }
  const PlannedSdpa forward = plan_sdpa(problem, std::nullopt, how);
  NpyOutputs outputs(options.arrays.out, names_of(options),
                     {options.q, options.k, options.v, options.bias, options.d_o});

  Outcome outcome = {to_text(problem), problem.dtype, api::granted_threads(how.threads), {}};
  ForwardValues<T> results;
  SdpaGradientValues<G> gradients;
  outcome.passes.push_back(run_sdpa_forward(forward, files.inputs(), outcome.threads, &results));
  if (backward) {
    outcome.passes.push_back(run_sdpa_backward(*backward, files.inputs(), files.d_o.view(), results,
                                               outcome.threads, &gradients));
  }
  write_results(options, files, results, gradients, &outputs);
  return outcome;
}

void run_sdpa(const SdpaOptions& options) {
  if (options.scale == 0.0) throw UsageError("--scale 0 would make all scores equal");
  const ArrayOptions& arrays = options.arrays;
  const Outcome outcome = api::with_gradient_types(
      arrays.dtype_by(options.q), arrays.gradients_in_f32, [&](auto element, auto gradient) {
        return run<decltype(element), decltype(gradient)>(options);
      });
  print_outcome(outcome, arrays.out, names_of(options), arrays.json);
}

}  // namespace

void add_sdpa_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "sdpa",
      "attention of Q, K and V in .npy files, and its gradients, with the words that moved");
  const auto options = std::make_shared<SdpaOptions>();
  const auto file = [&](const char* name, std::string* path, const char* help) {
    return command->add_option(name, *path, help)->type_name("FILE");
  };
  file("--Q", &options->q, "queries, [batch, heads, n, d], [heads, n, d] or [n, d]")->required();
  file("--K", &options->k, "keys, [batch, kv_heads, m, d] or less; kv_heads divides heads")
      ->required();
  file("--V", &options->v, "values, [batch, kv_heads, m, dv] or less")->required();
  file("--bias", &options->bias,
       "added to the scaled scores: [batch or 1, heads or 1, n, m], [heads or 1, n, m] or [n, m]");
  file("--dO", &options->d_o,
       "gradient of O, [batch, heads, n, dv] or less: dQ, dK, dV and dBias too");
  const auto scale = std::make_shared<double>(0);
  CLI::Option* given = add_scale(command, scale.get());
  given->description("of the scores (default: 1 / sqrt(d))");
  options->arrays.add(command, "O.npy, LSE.npy, dQ.npy, ...", "Q");
  command->get_option("--f32-gradients")->needs(command->get_option("--dO"));
  command->footer(
      "seconds is the median of a few runs without a counter; the counted run gives the same "
      "bits.\n"
      "gflops counts 2 flops per multiply-add of a query and a key that it sees; peak_fraction\n"
      "compares it with independent multiply-adds measured in the same run, times the threads.");
  command->callback([options, scale, given] {
    if (given->count() > 0) options->scale = *scale;
    run_sdpa(*options);
  });
}

}  // namespace ioattn::tune
