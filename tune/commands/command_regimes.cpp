#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <vector>

#include "theory/bounds.hpp"
#include "theory/crossovers.hpp"
#include "theory/word_level.hpp"
#include "tune/commands/commands.hpp"
#include "tune/figure/figure.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/schedule_words.hpp"
#include "tune/text/report_json.hpp"

// Which schedule moves the fewest words where: docs/regimes.md is the output of this command.
namespace ioattn::tune {
namespace {

using theory::AlgorithmClass;

struct RegimesOptions {
  index_t n = 4096;
  bool json = false;
};

constexpr index_t widths[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

struct FastMemorySize {
  index_t words;
  const char* what;
};
constexpr FastMemorySize memories[] = {
    {12288, "48 KiB f32"},  {24576, "96 KiB f32"},   {262144, "1 MiB f32"},  {524288, "2 MiB f32"},
    {1048576, "4 MiB f32"}, {4194304, "16 MiB f32"}, {8388608, "32 MiB f32"}};

// M / d^2 of the second table; the winners change near 1/9, 1/4, 3/2 and 6.
constexpr double ratios[] = {0.0625, 0.09, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.536, 0.75, 1,
                             1.25,   1.5,  2,    3,    4,   5,    6,   8,   12,    16,   64};
constexpr index_t wide_rows = index_t{1} << 20, wide_d = 512;

struct Best {
  bool exists = false;
  Schedule schedule = Schedule::row_stream;
  index_t words = 0;
};

template <class Admits>
Best best_of(const std::vector<ScheduleWords>& list, Pass pass, const LayerShape& shape, index_t M,
             Admits admits) {
  Best best;
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    if (!admits(schedule)) continue;
    const std::optional<index_t> words = least_words(list, pass, schedule, shape, M);
    if (words && (!best.exists || *words < best.words)) best = {true, schedule, *words};
  }
  return best;
}

// One (d, M) of one pass.
struct Cell {
  LayerShape shape;
  index_t M = 0;
  std::vector<ScheduleWords> of_schedules;
  Best paper, best, tied;
  theory::Bound bound;          // of the winner's class
  theory::Bound general_bound;  // of class P

  double per_pair(double words) const {
    return words / (static_cast<double>(shape.n) * static_cast<double>(shape.m));
  }
};

Cell cell_of(Pass pass, index_t n, index_t d, index_t M) {
  Cell cell;
  cell.shape = {n, n, d, d, Tie::none};
  cell.M = M;
  cell.of_schedules = schedule_words(pass, cell.shape, M);
  const auto all = [](Schedule) { return true; };
  cell.paper = best_of(cell.of_schedules, pass, cell.shape, M, is_papers);
  cell.best = best_of(cell.of_schedules, pass, cell.shape, M, all);
  LayerShape tied = cell.shape;
  tied.tie = Tie::kv;
  cell.tied = best_of(schedule_words(pass, tied, M), pass, tied, M, all);
  cell.bound = theory::lower_bound(pass, theory::class_of(pass, cell.best.schedule), cell.shape, M);
  cell.general_bound = theory::lower_bound(pass, AlgorithmClass::P, cell.shape, M);
  return cell;
}

// Three significant digits, as they stand in the source of these tables.
std::string figure(double value) { return fmt::format("{:.3g}", value); }

std::string text_of(const Cell& cell) {
  if (!cell.best.exists) return "-";
  const std::string paper =
      cell.paper.exists ? figure(cell.per_pair(static_cast<double>(cell.paper.words))) : "-";
  return fmt::format("{} → {} {} ({}) / {}", paper, name_of(cell.best.schedule),
                     figure(cell.per_pair(static_cast<double>(cell.best.words))),
                     figure(cell.per_pair(static_cast<double>(cell.tied.words))),
                     figure(cell.per_pair(cell.bound.words)));
}

void print_cells(Pass pass, index_t n) {
  fmt::print("\n## {} pass, n = m = {}\n\n| d |", pass == Pass::forward ? "Forward" : "Backward",
             n);
  for (const FastMemorySize& memory : memories)
    fmt::print(" M = {} ({}) |", memory.words, memory.what);
  fmt::print("\n|--|");
  for (std::size_t i = 0; i < std::size(memories); ++i) fmt::print("--|");
  fmt::print("\n");
  for (const index_t d : widths) {
    fmt::print("| {} |", d);
    for (const FastMemorySize& memory : memories) {
      fmt::print(" {} |", text_of(cell_of(pass, n, d, memory.words)));
    }
    fmt::print("\n");
  }
}

// Schedules of the second table, the paper's first.
std::vector<Schedule> columns(Pass pass) {
  std::vector<Schedule> list;
  for (int i = 0; i < schedule_count; ++i) {
    const Schedule schedule = static_cast<Schedule>(i);
    // naive fits nowhere here.
    const bool priced =
        theory::exact_cost(pass, schedule, {64, 64, 8, 8, Tie::none}, 1 << 14).has_value();
    if (schedule != Schedule::naive && priced) list.push_back(schedule);
  }
  return list;
}

void print_ratios(Pass pass) {
  const std::vector<Schedule> schedules = columns(pass);
  fmt::print("\n## {} pass by M / d², n = m = 2^20, d = {}\n\n| M / d² |",
             pass == Pass::forward ? "Forward" : "Backward", wide_d);
  for (const Schedule schedule : schedules) fmt::print(" {} |", name_of(schedule));
  fmt::print(" winner | bound F | bound P |\n|--|");
  for (std::size_t i = 0; i < schedules.size() + 3; ++i) fmt::print("--|");
  fmt::print("\n");
  for (const double ratio : ratios) {
    const index_t M = static_cast<index_t>(ratio * static_cast<double>(wide_d * wide_d));
    const Cell cell = cell_of(pass, wide_rows, wide_d, M);
    fmt::print("| {} |", ratio);
    for (const Schedule schedule : schedules) {
      const auto words = least_words(cell.of_schedules, pass, schedule, cell.shape, M);
      const std::string text = words ? figure(cell.per_pair(static_cast<double>(*words))) : "-";
      const bool wins = cell.best.exists && schedule == cell.best.schedule;
      fmt::print(" {} |", wins ? "**" + text + "**" : text);
    }
    const theory::Bound of_f = theory::lower_bound(pass, AlgorithmClass::F, cell.shape, M);
    fmt::print(" {} | {} | {} |\n", name_of(cell.best.schedule), figure(cell.per_pair(of_f.words)),
               figure(cell.per_pair(cell.general_bound.words)));
  }
}

// Every two schedules whose leading terms cross, and where the exact costs do.
void print_crossovers(Pass pass) {
  fmt::print("\n## {} pass: M / d² from which the second schedule moves fewer words\n",
             pass == Pass::forward ? "Forward" : "Backward");
  for (const Tie tie : {Tie::none, Tie::kv}) {
    fmt::print("\n| first | second{} | leading terms | n = m = 2^20, d = {} |\n|--|--|--|--|\n",
               tie == Tie::kv ? ", A2 = A3" : "", wide_d);
    for (const theory::Crossover& of : theory::crossovers(pass, tie)) {
      const auto measured = theory::measured_crossover(pass, tie, of, wide_rows, wide_d);
      fmt::print("| {} | {} | {} | {} |\n", name_of(of.below), name_of(of.above), figure(of.mu),
                 measured ? figure(*measured) : "-");
    }
  }
}

void print_markdown(index_t n) {
  fmt::print(
      "# Who wins where\n\n"
      "Printed by `ioattn regimes`; a test holds this page to it. The fewest words that every\n"
      "schedule is known to move, by its formula at word level (`theory::word_level`) or in a "
      "plan's\n"
      "blocks, divided by n·m, as `ioattn bounds` has them; d = dv. What the library plans weighs\n"
      "multiply-adds too: `ioattn plan`.\n\n"
      "A cell: the paper's best that fits → the winner and its words (with A2 = A3 one memory) /\n"
      "lower bound of the winner's class. \"Bound F\" holds for algorithms with one accumulator "
      "per\n"
      "entry and no multiply-add done twice, \"bound P\" for all of the red-blue pebble game (up "
      "to\n"
      "M = d², where G3 is the largest, with one summation tree an entry);\n"
      "backward `weight_resident` and `paper_large` are compared with the latter only. The last "
      "table of a pass is\nof every two schedules: where their leading terms cross, in closed "
      "form, "
      "and where exact costs do. For\ndX `tile_fused` is that of words, in the g-form; `naive` and "
      "`resident` need M > md, whatever M / d².\n");
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    print_ratios(pass);
    print_cells(pass, n);
    print_crossovers(pass);
  }
}

Json cell_json(Pass pass, const Cell& cell) {
  const auto best_json = [](const Best& best) {
    Json json;
    if (!best.exists) return json;
    json["schedule"] = name_of(best.schedule);
    json["words"] = best.words;
    return json;
  };
  Json json;
  json["pass"] = name_of(pass);
  json["n"] = cell.shape.n;
  json["m"] = cell.shape.m;
  json["d"] = cell.shape.d;
  json["M"] = cell.M;
  json["paper"] = best_json(cell.paper);
  json["best"] = best_json(cell.best);
  json["tied"] = best_json(cell.tied);
  json["lower_bound"] = cell.bound.words;
  json["bound"] = cell.bound.name;
  json["general_lower_bound"] = cell.general_bound.words;
  return json;
}

void print_regimes_json(index_t n) {
  Json cells = Json::array();
  for (const Pass pass : {Pass::backward, Pass::forward}) {
    for (const index_t d : widths) {
      for (const FastMemorySize& memory : memories) {
        cells.push_back(cell_json(pass, cell_of(pass, n, d, memory.words)));
      }
    }
    for (const double ratio : ratios) {
      const index_t M = static_cast<index_t>(ratio * static_cast<double>(wide_d * wide_d));
      cells.push_back(cell_json(pass, cell_of(pass, wide_rows, wide_d, M)));
    }
  }
  Json json;
  json["cells"] = std::move(cells);
  print_json(json);
}

}  // namespace

void add_regimes_command(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("regimes", "which schedule moves the fewest words, by n, d and M");
  const auto options = std::make_shared<RegimesOptions>();
  add_integer(command, "--n", &options->n, 1, index_t{1} << 24, "rows, n = m (default: 4096)");
  add_json(command, &options->json);
  command->footer("Prints Markdown tables of the fewest words; --json lists every cell.");
  command->callback([options] {
    if (options->json) {
      print_regimes_json(options->n);
    } else {
      print_markdown(options->n);
    }
  });
}

}  // namespace ioattn::tune
