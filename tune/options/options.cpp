#include "tune/options/options.hpp"

#include <CLI/CLI.hpp>

#include <functional>

#include "api/checks/validate.hpp"
#include "api/checks/validate_sdpa.hpp"
#include "base/parse.hpp"
#include "base/problem_text.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"

namespace ioattn::tune {
namespace {

[[noreturn]] void wrong(const std::string& name, const std::string& why) {
  throw CLI::ValidationError(name, why);
}

bool is_a_pass(Schedule schedule) {
  return exists(schedule, Pass::forward) || exists(schedule, Pass::backward);
}

// "auto, naive, paper_small, ...": those that a pass of its own can be asked for.
std::string schedule_names() {
  std::string names = "auto";
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    if (is_a_pass(schedule)) names += std::string(", ") + name_of(schedule);
  }
  return names;
}

CLI::Option* add_integer(CLI::App* app, const std::string& name,
                         const std::function<void(index_t)>& take, index_t least, index_t most,
                         const std::string& help) {
  const auto parse = [=](const std::string& text) {
    index_t value = 0;
    if (!parse_number(text, &value) || value < least || value > most) {
      wrong(name, "\"" + text + "\" is not an integer from " + std::to_string(least) + " to " +
                      std::to_string(most));
    }
    take(value);
  };
  return app->add_option_function<std::string>(name, parse, help)->type_name("N");
}

}  // namespace

CLI::Option* add_integer(CLI::App* app, const std::string& name, index_t* value, index_t least,
                         index_t most, const std::string& help) {
  return add_integer(
      app, name, [=](index_t given) { *value = given; }, least, most, help);
}

CLI::Option* add_schedule(CLI::App* app, std::optional<Schedule>* schedule,
                          const std::string& of_sdpa) {
  const auto parse = [=](const std::string& text) {
    Schedule parsed{};
    if (text == "auto") {
      schedule->reset();
    } else if (parse_schedule(text, &parsed) && is_a_pass(parsed)) {
      *schedule = parsed;
    } else {
      wrong("--schedule", "no schedule is called \"" + text + "\"; there are " + schedule_names());
    }
  };
  return app
      ->add_option_function<std::string>(
          "--schedule", parse, "one of " + schedule_names() + " (default: auto)" + of_sdpa)
      ->type_name("NAME");
}

CLI::Option* add_tie(CLI::App* app, Tie* tie) {
  const auto parse = [=](const std::string& text) {
    if (!parse_name(text, {Tie::none, Tie::kv, Tie::all}, tie)) {
      wrong("--tie", "\"" + text + "\" is not none, kv or all");
    }
  };
  return app
      ->add_option_function<std::string>(
          "--tie", parse, "operands that are the same memory: none, kv (A2 = A3) or all (A1 too)")
      ->type_name("TIE");
}

CLI::Option* add_dtype(CLI::App* app, std::optional<DType>* dtype) {
  const char* names = "f32, f64, bf16 or f16";
  const auto parse = [=](const std::string& text) {
    DType parsed{};
    if (!parse_dtype(text, &parsed)) wrong("--dtype", "\"" + text + "\" is not " + names);
    *dtype = parsed;
  };
  return app->add_option_function<std::string>("--dtype", parse, names)->type_name("DTYPE");
}

DType dtype_for(std::optional<DType> asked, const std::string& path) {
  const NpyHeader header = read_npy_header(path);
  if (header.is_raw && !asked) {
    throw UsageError(path + ": dtype '<u2' may be bf16: say so by --dtype bf16");
  }
  return asked.value_or(header.dtype);
}

CLI::Option* add_threads(CLI::App* app, int* threads, const std::string& help) {
  return add_integer(
      app, "--threads", [=](index_t given) { *threads = static_cast<int>(given); }, 1, 1 << 16,
      help);
}

CLI::Option* add_pass(CLI::App* app, Pass* pass) {
  const auto parse = [=](const std::string& text) {
    if (!parse_name(text, {Pass::forward, Pass::backward}, pass)) {
      wrong("--pass", "\"" + text + "\" is not forward or backward");
    }
  };
  return app
      ->add_option_function<std::string>("--pass", parse, "forward or backward (default: backward)")
      ->type_name("PASS");
}

api::Objective objective_of(const std::string& name) {
  api::Objective objective{};
  if (!api::parse_objective(name, &objective)) {
    wrong("--objective", "\"" + name + "\" is not time, words@L1 or words@L2");
  }
  return objective;
}

CLI::Option* add_objective(CLI::App* app, api::Objective* objective) {
  return app
      ->add_option_function<std::string>(
          "--objective", [=](const std::string& name) { *objective = objective_of(name); },
          "what the plan minimises: time, words@L1 or words@L2 (default: time)")
      ->type_name("NAME");
}

CLI::Option* add_json(CLI::App* app, bool* json) {
  return app->add_flag("--json", *json, "print one JSON object in place of tables");
}

CLI::Option* add_scale(CLI::App* app, double* scale) {
  const auto parse = [=](const std::string& text) {
    if (!parse_scale(text, scale)) wrong("--scale", "\"" + text + "\" is not a finite number");
  };
  return app->add_option_function<std::string>("--scale", parse, "of the scores (default: 1)")
      ->type_name("S");
}

void MaskOptions::add(CLI::App* app) {
  const auto parse_causal = [this](const std::string& text) {
    if (text != "top-left" && text != "bottom-right") {
      wrong("--causal", "\"" + text + "\" is not top-left or bottom-right");
    }
    bottom_right = text == "bottom-right";
  };
  app->add_option_function<std::string>(
         "--causal", parse_causal,
         "top-left: query i sees the keys 0 ... i; bottom-right: 0 ... i + m - n")
      ->type_name("CORNER");
  const auto parse_window = [this](const std::string& text) {
    const std::string_view limits = text;
    const std::size_t comma = limits.find(',');
    const auto parse_limit = [](std::string_view digits, index_t* limit) {
      return parse_number(digits, limit) && *limit >= -1 && *limit <= largest_size;
    };
    index_t left = -1, right = -1;
    if (comma == std::string_view::npos || !parse_limit(limits.substr(0, comma), &left) ||
        !parse_limit(limits.substr(comma + 1), &right)) {
      wrong("--window",
            "\"" + text + "\" is not L,R: two integers from -1 to " + std::to_string(largest_size));
    }
    window = {left, right};
  };
  app->add_option_function<std::string>(
         "--window", parse_window,
         "query i sees L keys before its own and R after it, of those that --causal shows; -1: all")
      ->type_name("L,R");
}

Mask MaskOptions::of(index_t n, index_t m) const {
  const index_t diagonal = bottom_right.value_or(false) ? m - n : 0;
  auto [left, right] = window.value_or(std::pair<index_t, index_t>{-1, -1});
  if (bottom_right) right = 0;
  return ioattn::window(diagonal, left, right);
}

void ArrayOptions::add(CLI::App* app, const std::string& outputs, const std::string& input) {
  app->add_option("--out", out, "directory for " + outputs)->required()->type_name("DIR");
  mask.add(app);
  add_objective(app, &run.objective);
  add_integer(
      app, "--M", &run.M, 1, largest_words,
      "words of fast memory, exact (default: L2's, or L3's where the planner holds blocks there)");
  add_dtype(app, &dtype)->description("f32, f64, bf16 or f16 (default: that of " + input + ")");
  app->add_flag("--f32-gradients", gradients_in_f32,
                "gradients of bf16 or f16 are written in f32, not rounded");
  add_threads(
      app, &run.threads,
      "at most so many (default: all that this process may use; on CPUs that others use, too, "
      "OMP_WAIT_POLICY=passive keeps them from waiting for each other in loops)");
  add_json(app, &json);
}

DType ArrayOptions::dtype_by(const std::string& path) const {
  const DType found = dtype_for(dtype, path);
  if (gradients_in_f32 && found == DType::f64) {
    throw UsageError("--f32-gradients are of f32, bf16 or f16");
  }
  return found;
}

void ShapeOptions::add(CLI::App* app) {
  n = add_integer(app, "--n", &shape.n, 1, largest_size, "queries: rows of A1");
  m = add_integer(app, "--m", &shape.m, 1, largest_size, "keys: rows of A2 and A3 (default: n)");
  d = add_integer(app, "--d", &shape.d, 1, largest_size, "columns of A1, A2, A3; X is d x d");
  dv = add_integer(app, "--dv", &shape.dv, 1, largest_size, "columns of Y and O (default: d)");
  tie = add_tie(app, &shape.tie);
}

LayerShape ShapeOptions::checked() const {
  LayerShape result = shape;
  if (result.m == 0) result.m = result.n;
  if (result.dv == 0) result.dv = result.d;
  if (result.tie == Tie::all && result.n != result.m) throw UsageError("--tie all needs n = m");
  check_shape(result);
  return result;
}

void explain_problems(CLI::App* app) {
  const std::string before = app->get_footer();
  app->footer(before + (before.empty() ? "" : "\n") +
              "PROBLEM is sdpa: or layer: and fields, which commas separate: nN queries, mN keys "
              "(n), dN columns,\n"
              "vN of values (d), bN batch entries (1), sS the scale, f32 (the default), f64, bf16 "
              "or f16; causal,\n"
              "causal-bottom-right or keysFIRST:LAST beside a query's own, * for no limit. Of sdpa "
              "hN heads (1),\n"
              "kvN of keys (h), biasBxH for B entries and H heads; of layer tied, A2 = A3, or "
              "self, A1 = A2 = A3.");
}

void add_problem(CLI::App* app, std::string* text, ShapeOptions* shape, std::optional<DType>* dtype,
                 const std::string& help) {
  CLI::Option* given = app->add_option("--problem", *text, help)->type_name("PROBLEM");
  shape->add(app);
  CLI::Option* type = add_dtype(app, dtype);
  for (CLI::Option* option : {shape->n, shape->m, shape->d, shape->dv, shape->tie, type}) {
    option->excludes(given);
  }
}

LayerProblem layer_problem(const std::string& text, const ShapeOptions& shape,
                           std::optional<DType> dtype) {
  LayerProblem problem;
  if (!text.empty()) {
    std::string error;
    if (!parse_problem(text, &problem, &error)) throw UsageError(error);
    check_shape(problem.shape);
    if (seen_keys(problem.shape).is_empty()) throw UsageError("the mask hides every key");
    return problem;
  }
  if (shape.shape.n == 0 || shape.shape.d == 0) {
    throw UsageError("--problem, or --n and --d, are required");
  }
  problem.shape = shape.checked();
  problem.dtype = dtype.value_or(DType::f32);
  return problem;
}

bool is_sdpa(const std::string& text) { return text.rfind("sdpa:", 0) == 0; }

SdpaProblem sdpa_of(const std::string& text) {
  SdpaProblem problem;
  std::string error;
  if (!parse_problem(text, &problem, &error)) throw UsageError(error);
  const SdpaShape& s = problem.shape;
  for (const index_t size : {s.batch, s.heads, s.kv_heads, s.n, s.m, s.d, s.dv}) {
    if (size < 1) throw UsageError("every size must be at least 1 in " + text);
  }
  require(api::validate_problem(problem));
  if (seen_keys(s.head()).is_empty()) throw UsageError("the mask hides every key");
  return problem;
}

void check_shape(const LayerShape& shape) {
  if (shape.n < 1 || shape.m < 1 || shape.d < 1 || shape.dv < 1) {
    throw UsageError("n, m, d and dv must be at least 1");
  }
  require(api::validate_shape(shape));
}

}  // namespace ioattn::tune
