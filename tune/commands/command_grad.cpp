#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "api/array_types.hpp"
#include "api/run/layer.hpp"
#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/commands/commands.hpp"
#include "tune/files/layer_files.hpp"
#include "tune/files/npy_outputs.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measure.hpp"
#include "tune/passes/measured_gradients.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/passes/report_text.hpp"
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
  MaskOptions mask;
  std::string out;
  Wanted wanted;
  std::optional<DType> dtype;
  bool gradients_in_f32 = false;
  index_t threads = 0;
  api::RunOptions run;
  bool json = false;
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

// What the command did: the backward pass first.
struct Outcome {
  std::vector<PassReport> passes;
  double peak_flops = 0;  // measured, of all threads used
  int threads = 1;
  LayerProblem problem;
};

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
  inputs.mask = options.mask.of(inputs.a1.rows, inputs.a2.rows);
  const MatrixView<const S> d_o = files.first_entry(files.d_o);
  const LayerProblem problem = api::problem_of(inputs);

  // Plan both passes before anything runs: the backward pass first, which needs more.
  Wanted wanted = options.wanted;
  wanted.gradients.in_f32 = !std::is_same_v<S, G>;
  const bool dx_alone = wanted.dx_alone();
  PlannedPass backward, forward;
  PlannedGradients gradients;
  bool needs_forward = wanted.forward();
  if (dx_alone) {
    backward = plan_pass(Pass::backward, problem, options.run);
    needs_forward = needs_forward || takes_forward_results(backward.plan.schedule);
  } else if (wanted.backward()) {
    wanted.gradients.dk = wanted.gradients.dW_Q   ? files.w_k.cols
                          : wanted.gradients.dW_K ? files.w_q.cols
                                                  : 0;
    gradients = plan_gradients(problem, wanted.gradients, options.run);
    needs_forward = needs_forward || api::takes_forward_results(gradients.plan, wanted.gradients);
  }
  if (needs_forward) {
    // A schedule that was asked for is that of the backward pass, if there is one.
    forward = wanted.backward() ? plan_pass_or_auto(Pass::forward, problem, options.run)
                                : plan_pass(Pass::forward, problem, options.run);
  }
  const LayerPaths& paths = options.paths;
  NpyOutputs outputs(
      options.out, names_of(wanted),
      {paths.a1, paths.a2, paths.a3, paths.x, paths.y, paths.d_o, paths.w_q, paths.w_k});

  Outcome outcome;
  outcome.problem = problem;
  outcome.threads = api::granted_threads(options.run.threads);
  outcome.peak_flops = peak_flops(dtype_of<Compute<S>>::value, outcome.threads);

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

void print_outcome_json(const GradOptions& options, const Outcome& outcome) {
  const PassReport& main = outcome.passes.front();
  Json json;
  json["machine"] = machine_json(machine::this_machine());
  json["plan"] = main.plan_text;
  json["schedule"] = name_of(main.planned.plan.schedule);
  json["isa"] = name_of(main.planned.plan.tile.isa);
  json["dtype"] = name_of(outcome.problem.dtype);
  json["batch"] = outcome.problem.batch;
  json["scale"] = outcome.problem.scale;
  json["mask"] = mask_text(outcome.problem.shape);
  json["threads"] = outcome.threads;
  json["seconds"] = main.seconds;
  json["gflops"] = main.gflops;
  json["peak_fraction"] = main.gflops * 1e9 / outcome.peak_flops;
  json["io"] = Json::array();
  for (const PassReport& report : outcome.passes) json["io"].push_back(io_json(report));
  json["files"] = npy_paths(options.out, names_of(options.wanted));
  print_json(json);
}

void print_outcome(const GradOptions& options, const Outcome& outcome) {
  const machine::Machine& machine = machine::this_machine();
  const PassReport& main = outcome.passes.front();
  fmt::print("{}\n", to_text(outcome.problem));
  fmt::print("machine: {}; {} of {} threads, {}\n", machine.model, outcome.threads,
             machine.usable_threads, name_of(main.planned.plan.tile.isa));
  for (const PassReport& report : outcome.passes) {
    fmt::print("{}: {}\n", name_of(report.planned.pass), report.plan_text);
    fmt::print("  {}, {:.2f} Gflop/s nominal = {:.0f}% of the FMA peak\n",
               seconds_text(report.seconds), report.gflops,
               100 * report.gflops * 1e9 / outcome.peak_flops);
    fmt::print("{}", overflows_text(report.overflows));
  }
  fmt::print("{}", io_text(outcome.passes));
  fmt::print("{}", written_text(options.out, names_of(options.wanted)));
}

void run_grad(GradOptions options) {
  if (options.run.literal && options.run.schedule != Schedule::paper_large) {
    throw UsageError("--literal needs --schedule paper_large");
  }
  const GradientSet& gradients = options.wanted.gradients;
  if (options.wanted.backward() && options.paths.d_o.empty()) {
    throw UsageError("--dO is required for dX and other gradients");
  }
  if (options.gradients_in_f32 && !options.wanted.backward()) {
    throw UsageError("--f32-gradients is for gradients, of which --outputs has none");
  }
  if (gradients.dW_Q && options.paths.w_k.empty()) throw UsageError("--W_K is required for dW_Q");
  if (gradients.dW_K && options.paths.w_q.empty()) throw UsageError("--W_Q is required for dW_K");
  options.run.threads = static_cast<int>(options.threads);
  const DType dtype = dtype_for(options.dtype, options.paths.a1, options.gradients_in_f32);
  const Outcome outcome =
      api::with_gradient_types(dtype, options.gradients_in_f32, [&](auto element, auto gradient) {
        return run<decltype(element), decltype(gradient)>(options);
      });
  if (options.json) {
    print_outcome_json(options, outcome);
  } else {
    print_outcome(options, outcome);
  }
}

}  // namespace

void add_grad_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "grad", "forward and backward pass on .npy files, with the words that moved");
  const auto options = std::make_shared<GradOptions>();
  const auto file = [&](const char* name, std::string* path, const char* help) {
    return command->add_option(name, *path, help)->type_name("FILE");
  };
  add_layer_files(command, &options->paths, true);
  file("--W_Q", &options->paths.w_q, "d x dk, where X = W_Q W_K^T; needed for dW_K");
  file("--W_K", &options->paths.w_k, "d x dk; needed for dW_Q");
  command->add_option("--out", options->out, "directory for O.npy, LSE.npy, dX.npy, ...")
      ->required()
      ->type_name("DIR");
  command
      ->add_option_function<std::string>(
          "--outputs", [=](const std::string& text) { options->wanted = parse_outputs(text); },
          "comma-separated list of O, LSE, dX, dY, dA1, dA2, dA3, dA (the sum over operands that "
          "are one file), dW_Q, dW_K (default: O,LSE,dX)")
      ->type_name("LIST");
  add_scale(command, &options->scale);
  options->mask.add(command);
  add_schedule(command, &options->run.schedule);
  command->add_flag("--literal", options->run.literal,
                    "paper_large with the paper's own block sizes, although they exceed M");
  add_objective(command, &options->run.objective);
  add_integer(
      command, "--M", &options->run.M, 1, largest_words,
      "words of fast memory, exact (default: L2's, or L3's where the planner holds blocks there)");
  add_dtype(command, &options->dtype)->description("f32, f64, bf16 or f16 (default: that of A1)");
  add_f32_gradients(command, &options->gradients_in_f32);
  add_integer(
      command, "--threads", &options->threads, 1, 1 << 16,
      "at most so many (default: all that this process may use; on CPUs that others use, too, "
      "OMP_WAIT_POLICY=passive keeps them from waiting for each other in loops)");
  add_json(command, &options->json);
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
      "threads. schedule, plan, seconds and gflops are those of the first entry of io.");
  command->callback([options] { run_grad(*options); });
}

}  // namespace ioattn::tune
