#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "api/array_types.hpp"
#include "api/run/layer.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/files/layer_files.hpp"
#include "tune/files/npy_outputs.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measured_gradients.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/reports/outcome_report.hpp"
#include "tune/text/text_list.hpp"

namespace ioattn::tune {
namespace {

struct Wanted {
  bool o = true, lse = true;
  GradientSet gradients = {.dX = true};
  bool forward() const { return o || lse; }
  bool backward() const { return gradients != GradientSet{.in_f32 = gradients.in_f32}; }
  bool dx_alone() const { return gradients == GradientSet{.dX = true, .in_f32 = gradients.in_f32}; }
};

struct GradOptions {
  LayerPaths paths;
  double scale = 1;
  Wanted wanted;
  ArrayOptions arrays;
};

bool* find_output(const std::string& name, Wanted* wanted) {
  if (name == "O") return &wanted->o;
  if (name == "LSE") return &wanted->lse;
  for (const NamedGradient& gradient : named_gradients) {
    if (name == gradient.name) return &(wanted->gradients.*gradient.wanted);
  }
  return nullptr;
}

Wanted parse_outputs(const std::string& text) {
  Wanted wanted = {false, false, {}};
  for (const std::string& name : split(text, ',')) {
    bool* flag = find_output(name, &wanted);
    if (flag == nullptr || *flag) {
      throw CLI::ValidationError("--outputs",
                                 "\"" + text +
                                     "\" is not a list of O, LSE, dX, dY, dA1, dA2, dA3, dA, "
                                     "dW_Q, dW_K");
    }
    *flag = true;
  }
  return wanted;
}

std::vector<std::string> names_of(const Wanted& wanted) {
  std::vector<std::string> names;
  if (wanted.o) names.push_back("O");
  if (wanted.lse) names.push_back("LSE");
  for (const NamedGradient& gradient : named_gradients) {
    if (wanted.gradients.*gradient.wanted) names.push_back(gradient.name);
  }
  return names;
}

// Files of a batch have one dimension more than those of a layer.
template <class S, class G>
void write_results(const Wanted& wanted, std::optional<index_t> batch,
                   const ForwardResult<S>& forward, const std::vector<NamedMatrix<G>>& gradients,
                   NpyOutputs* outputs) {
  const auto write = [&](const char* name, const auto* data, bool is_per_entry,
                         std::vector<index_t> shape) {
    if (is_per_entry && batch) shape.insert(shape.begin(), *batch);
    outputs->write(name, data, shape);
  };
  const MatrixView<const S>& o = forward.o;
  if (wanted.o) write("O", o.data, true, {o.rows, o.cols});
  if (wanted.lse) write("LSE", forward.lse, true, {o.rows});
  for (const auto& [name, first, is_per_entry] : gradients) {
    write(name, first.data, is_per_entry, {first.rows, first.cols});
  }
  outputs->keep();
}

// The backward pass first. S: of the inputs, G: of gradients.
template <class S, class G>
Outcome run(const GradOptions& options) {
  const LayerFiles<S> files = read_layer<S>(options.paths);
  if (!files.not_finite.empty()) {
    std::fprintf(stderr, "ioattn: warning: NaN or Inf in %s, as %s\n",
                 fmt::format("{}", fmt::join(files.not_finite, ", ")).c_str(),
                 name_of(dtype_of<S>::value));
  }
  LayerInputs<S> inputs = files.inputs();
  inputs.scale = options.scale;
  inputs.mask = options.arrays.mask.of(inputs.a1.rows, inputs.a2.rows);
  const MatrixView<const S> d_o = files.first_entry(files.d_o);
  const LayerProblem problem = api::problem_of(inputs);

  const api::RunOptions& how = options.arrays.run;

  // Plan both passes before anything runs: the backward pass first, which needs more.
  Wanted wanted = options.wanted;
  wanted.gradients.in_f32 = !std::is_same_v<S, G>;
  const bool dx_alone = wanted.dx_alone();
  PlannedPass backward, forward;
  PlannedGradients gradients;
  bool needs_forward = wanted.forward();
  if (dx_alone) {
    backward = plan_pass(Pass::backward, problem, how);
    needs_forward = needs_forward || takes_forward_results(backward.plan.schedule);
  } else if (wanted.backward()) {
    wanted.gradients.dk = wanted.gradients.dW_Q   ? files.w_k.cols
                          : wanted.gradients.dW_K ? files.w_q.cols
                                                  : 0;
    gradients = plan_gradients(problem, wanted.gradients, how);
    needs_forward = needs_forward || api::takes_forward_results(gradients.plan, wanted.gradients);
  }
  if (needs_forward) {
    // A schedule that was asked for is that of the backward pass, if there is one.
    forward = wanted.backward() ? plan_pass_or_auto(Pass::forward, problem, how)
                                : plan_pass(Pass::forward, problem, how);
  }
  const LayerPaths& paths = options.paths;
  NpyOutputs outputs(
      options.arrays.out, names_of(wanted),
      {paths.a1, paths.a2, paths.a3, paths.x, paths.y, paths.d_o, paths.w_q, paths.w_k});

  Outcome outcome = {to_text(problem), problem.dtype, api::granted_threads(how.threads), {}};

  const RunMode mode = {outcome.threads, true};
  ForwardResult<S> results;
  std::vector<G> dx;
  GradientResults<G> more;
  if (needs_forward) {
    PassReport report = run_forward(inputs, forward, mode, &results);
    if (wanted.forward()) outcome.passes.push_back(std::move(report));
  }
  if (dx_alone) {
    outcome.passes.insert(outcome.passes.begin(),
                          run_backward(inputs, d_o, results.o, results.lse, backward, mode, &dx));
    const index_t d = problem.shape.d;
    more.matrices = {{"dX", {dx.data(), d, d, d}, false}};
  } else if (wanted.backward()) {
    const GradientInputs<S> given = {inputs,          d_o, results.o, results.lse, files.w_q.view(),
                                     files.w_k.view()};
    outcome.passes.insert(outcome.passes.begin(), run_gradients(given, gradients, mode, &more));
  }
  write_results(wanted, files.batch, results, more.matrices, &outputs);
  return outcome;
}

void run_grad(const GradOptions& options) {
  const ArrayOptions& arrays = options.arrays;
  if (arrays.run.literal && arrays.run.schedule != Schedule::paper_large) {
    throw UsageError("--literal needs --schedule paper_large");
  }
  const GradientSet& gradients = options.wanted.gradients;
  if (options.wanted.backward() && options.paths.d_o.empty()) {
    throw UsageError("--dO is required for dX and other gradients");
  }
  if (arrays.gradients_in_f32 && !options.wanted.backward()) {
    throw UsageError("--f32-gradients is for gradients, of which --outputs has none");
  }
  if (gradients.dW_Q && options.paths.w_k.empty()) throw UsageError("--W_K is required for dW_Q");
  if (gradients.dW_K && options.paths.w_q.empty()) throw UsageError("--W_Q is required for dW_K");
  const Outcome outcome = api::with_gradient_types(
      arrays.dtype_by(options.paths.a1), arrays.gradients_in_f32, [&](auto element, auto gradient) {
        return run<decltype(element), decltype(gradient)>(options);
      });
  print_outcome(outcome, arrays.out, names_of(options.wanted), arrays.json);
}

}  // namespace

void add_grad_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "grad", "forward and backward pass on .npy files, with the words that moved");
  const auto options = std::make_shared<GradOptions>();
  const auto file = [&](const char* name, std::string* path, const char* help) {
    return command->add_option(name, *path, help)->type_name("FILE");
  };
  add_layer_files(command, &options->paths, FilesOf::batches);
  file("--W_Q", &options->paths.w_q, "d x dk, where X = W_Q W_K^T; needed for dW_K");
  file("--W_K", &options->paths.w_k, "d x dk; needed for dW_Q");
  command
      ->add_option_function<std::string>(
          "--outputs", [=](const std::string& text) { options->wanted = parse_outputs(text); },
          "comma-separated list of O, LSE, dX, dY, dA1, dA2, dA3, dA (the sum over operands that "
          "are one file), dW_Q, dW_K (default: O,LSE,dX)")
      ->type_name("LIST");
  add_scale(command, &options->scale);
  add_schedule(command, &options->arrays.run.schedule);
  command->add_flag("--literal", options->arrays.run.literal,
                    "paper_large with the paper's own block sizes, although they exceed M");
  options->arrays.add(command, "O.npy, LSE.npy, dX.npy, ...", "A1");
  command->footer(
      "seconds is the median of a few runs without a counter; the counted run gives the same "
      "bits.\n"
      "gflops is nominal flops / seconds, 2 flops per multiply-add, every product taken once:\n"
      "  form g (G = dO Y^T):                   dX  2(3nmd + 2nd^2 + n d dv)\n"
      "                                         O   2(2nmd + nd^2 + n d dv)\n"
      "  form h (h = A3 Y) and paper schedules: dX  2(2nmd + 2nd^2 + nm dv + m d dv)\n"
      "                                         O   2(nmd + nd^2 + nm dv + m d dv)\n"
      "  other gradients than dX:               2 per multiply-add of their phases\n"
      "Under a mask nm is the number of pairs of a query and a key that it sees. All of it counts\n"
      "once for each entry of a batch, whose O, LSE, dA1, dA2, dA3 and dA have one dimension "
      "more;\n"
      "dX, dY, dW_Q and dW_K are sums over the entries.\n"
      "peak_fraction compares it with independent multiply-adds measured in the same run, times "
      "the\n"
      "threads.");
  command->callback([options] { run_grad(*options); });
}

}  // namespace ioattn::tune
