#pragma once

#include <optional>
#include <string>

#include "api/planning/session.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "base/sdpa.hpp"
#include "tune/cli_fwd.hpp"

// Options that several subcommands have. A wrong value is a CLI::ParseError.
namespace ioattn::tune {

constexpr index_t largest_size = index_t{1} << 31;   // of n, m, d, dv
constexpr index_t largest_words = index_t{1} << 50;  // of M

// A decimal integer in [least, most]: no sign, no hexadecimal or octal form.
CLI::Option* add_integer(CLI::App* app, const std::string& name, index_t* value, index_t least,
                         index_t most, const std::string& help);

// What help adds where the problem may be SDPA's.
inline constexpr const char* schedule_of_sdpa =
    "; of SDPA only row_stream, which leaves the passes to the planner as auto does";
// One of the values that `parse` knows.
CLI::Option* add_schedule(CLI::App* app, std::optional<Schedule>* schedule,
                          const std::string& of_sdpa = "");
CLI::Option* add_tie(CLI::App* app, Tie* tie);
CLI::Option* add_dtype(CLI::App* app, std::optional<DType>* dtype);
// The one asked for or that of a file, which has to be sure of it.
DType dtype_for(std::optional<DType> asked, const std::string& path);
// --threads N
CLI::Option* add_threads(CLI::App* app, int* threads, const std::string& help);
CLI::Option* add_pass(CLI::App* app, Pass* pass);
// --objective: time, words@L1 or words@L2.
CLI::Option* add_objective(CLI::App* app, api::Objective* objective);
api::Objective objective_of(const std::string& name);  // throws CLI::ValidationError
CLI::Option* add_json(CLI::App* app, bool* json);

// --scale S, a finite number.
CLI::Option* add_scale(CLI::App* app, double* scale);

// --causal and --window.
struct MaskOptions {
  std::optional<bool> bottom_right;  // of --causal; without it windows are aligned at the top left
  std::optional<std::pair<index_t, index_t>> window;  // left, right; -1: no limit

  void add(CLI::App* app);
  // --causal cuts the window at the diagonal.
  Mask of(index_t n, index_t m) const;
};

// What `grad` and `sdpa` have in common: --out, --causal, --window, --objective, --M, --dtype,
// --f32-gradients, --threads and --json.
struct ArrayOptions {
  std::string out;
  MaskOptions mask;
  api::RunOptions run;
  std::optional<DType> dtype;
  bool gradients_in_f32 = false;
  bool json = false;

  // `outputs` are told of --out; the dtype is that of `input` unless another is asked for.
  void add(CLI::App* app, const std::string& outputs, const std::string& input);
  // By the file of that input. Throws UsageError, also if gradients in f32 are of f64.
  DType dtype_by(const std::string& path) const;
};

// --n, --m, --d, --dv, --tie: m defaults to n, dv to d.
struct ShapeOptions {
  LayerShape shape;
  CLI::Option* n = nullptr;
  CLI::Option* m = nullptr;
  CLI::Option* d = nullptr;
  CLI::Option* dv = nullptr;
  CLI::Option* tie = nullptr;

  void add(CLI::App* app);
  // The shape with its defaults; throws UsageError if the sizes are too large or --tie all meets n
  // != m.
  LayerShape checked() const;
};

// Adds to the footer what a text of --problem is made of.
void explain_problems(CLI::App* app);
// --problem, or the sizes and --dtype in its place.
void add_problem(CLI::App* app, std::string* text, ShapeOptions* shape, std::optional<DType>* dtype,
                 const std::string& help);
// The layer problem that they give. Throws UsageError.
LayerProblem layer_problem(const std::string& text, const ShapeOptions& shape,
                           std::optional<DType> dtype);

// Of SDPA: valid, each size at least 1, some key in sight. Throws UsageError.
bool is_sdpa(const std::string& problem);
SdpaProblem sdpa_of(const std::string& problem);

// Sizes at least 1 and small enough for the exact formulas.
void check_shape(const LayerShape& shape);

}  // namespace ioattn::tune
