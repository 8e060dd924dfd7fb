#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tune/command_error.hpp"
#include "tune/commands.hpp"
#include "tune/demo_runs.hpp"
#include "tune/npy.hpp"
#include "tune/options.hpp"
#include "tune/report_text.hpp"

namespace ioattn::tune {
namespace {

struct DemoOptions {
  std::string directory;
  bool json = false;
};

struct SweepPoint {
  index_t M = 0;
  std::vector<DemoRow> rows;
};

// Everything that the demo found out; both tables and the JSON object are made from it.
struct Demo {
  LayerShape shape;
  std::vector<plan::PlanRequest> levels;
  std::vector<DemoRow> backward, forward;  // at the deciding level, f32 then f64
  std::vector<SweepPoint> sweep;           // backward
};

bool is_printed_in_the_paper(Schedule schedule) {
  return schedule == Schedule::naive || schedule == Schedule::paper_small ||
         schedule == Schedule::paper_large;
}

const DemoRow* least_words(const std::vector<DemoRow>& rows, DType dtype, bool paper_only) {
  const DemoRow* least = nullptr;
  for (const DemoRow& row : rows) {
    if (!row.report || row.dtype != dtype || row.literal()) continue;
    if (paper_only && !is_printed_in_the_paper(row.candidate.schedule)) continue;
    if (least == nullptr || row.report->count.words() < least->report->count.words()) least = &row;
  }
  return least;
}

std::vector<plan::PlanRequest> plan_levels(const LayerProblem& problem) {
  std::vector<plan::PlanRequest> levels;
  for (const int level : {1, 2}) {
    api::RunOptions options;
    options.cache_level = level;
    require(api::plan_request(Pass::backward, problem, options, &levels.emplace_back()));
    levels.back().outer_M = 0;  // one level at a time
  }
  return levels;
}

// From 200 words to all of L2. Where L2 lies in the small-cache regime, one M of the other is
// added.
std::vector<index_t> sweep_sizes(const std::vector<plan::PlanRequest>& levels, index_t d) {
  const index_t most = levels.back().M;
  std::vector<index_t> sizes = {200, 1000, 4096, 16384, 65536, levels.front().M};
  std::erase_if(sizes, [=](index_t M) { return M > most; });
  sizes.push_back(most);
  if (most < d * d) {
    index_t beyond = 1;
    while (beyond < d * d) beyond *= 2;
    sizes.push_back(beyond);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

template <class T>
LayerFiles<T> read_case(const std::string& directory) {
  const auto path = [&](const char* name) { return directory + "/" + name + ".npy"; };
  return read_layer<T>({path("A"), "", "", path("X"), path("Y"), path("dO")});
}

void append(std::vector<DemoRow> from, std::vector<DemoRow>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

Demo run_cases(const std::string& directory) {
  const LayerFiles<double> files = read_case<double>(directory);
  const std::string golden_path = directory + "/golden_dX.npy";
  const Matrix<double> golden = read_npy<double>(golden_path);
  const RunMode timed = {api::granted_threads(0), true};
  const RunMode counted = {1, false};
  const std::vector<double> reference_o = reference_output(files, timed.threads);
  const DemoCase<double> f64 = {files, &golden, &reference_o};
  const DemoCase<float> f32 = {read_case<float>(directory), &golden, &reference_o};

  Demo demo;
  LayerProblem problem;
  problem.shape = demo.shape = shape_of(files.inputs());
  check_shape(demo.shape);
  if (golden.rows != demo.shape.d || golden.cols != demo.shape.d) {
    throw UsageError(golden_path + ": golden_dX is not d x d");
  }
  demo.levels = plan_levels(problem);
  append(run_demo_rows(f32, Pass::backward, 0, true, timed), &demo.backward);
  append(run_demo_rows(f64, Pass::backward, 0, true, timed), &demo.backward);
  append(run_demo_rows(f32, Pass::forward, 0, true, timed), &demo.forward);
  append(run_demo_rows(f64, Pass::forward, 0, true, timed), &demo.forward);
  for (const index_t M : sweep_sizes(demo.levels, demo.shape.d)) {
    SweepPoint point = {M, run_demo_rows(f32, Pass::backward, M, false, counted)};
    append(run_demo_rows(f64, Pass::backward, M, false, counted), &point.rows);
    demo.sweep.push_back(std::move(point));
  }
  return demo;
}

// ---- what was learned

template <class Visit>
void for_each_row(const Demo& demo, Visit visit) {
  for (const DemoRow& row : demo.backward) visit(row);
  for (const DemoRow& row : demo.forward) visit(row);
  for (const SweepPoint& point : demo.sweep) {
    for (const DemoRow& row : point.rows) visit(row);
  }
}

struct Verdict {
  int runs = 0, wrong = 0;
  double worst_f32 = 0, worst_f64 = 0;  // largest errors; NaN if any is
};

Verdict judge(const Demo& demo) {
  Verdict verdict;
  for_each_row(demo, [&](const DemoRow& row) {
    if (!row.report) return;
    ++verdict.runs;
    if (row.is_wrong()) ++verdict.wrong;
    double& worst = row.dtype == DType::f32 ? verdict.worst_f32 : verdict.worst_f64;
    if (!(row.error <= worst)) worst = row.error;
  });
  return verdict;
}

const DemoRow* planned_row(const std::vector<DemoRow>& rows, DType dtype) {
  const auto found = std::find_if(rows.begin(), rows.end(), [=](const DemoRow& row) {
    return row.planned && row.dtype == dtype;
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string learned_at_level(const DemoRow& ours, const DemoRow* paper) {
  const PassReport& report = *ours.report;
  std::string text = fmt::format("at {} (M = {} words) {} moved {} words for dX in {}",
                                 report.planned.plan.level, grouped(report.planned.M), ours.label(),
                                 grouped(report.count.words()), seconds_text(report.seconds));
  if (paper != nullptr) {
    const PassReport& other = *paper->report;
    text += fmt::format(", the paper's best that fits, {}, {} as many in {}", paper->label(),
                        ratio_text(static_cast<double>(other.count.words()) /
                                   static_cast<double>(report.count.words())),
                        seconds_text(other.seconds));
  }
  if (!report.exceeds_M()) {
    text += fmt::format("; the lower bound ({}) is {} words, {} below it", report.bound.name,
                        grouped(report.bound.words), ratio_text(report.ratio()));
  }
  return text + "; ";
}

// Which schedule moves least from which M on.
std::string learned_by_sweep(const Demo& demo) {
  std::string text, winner;
  for (const SweepPoint& point : demo.sweep) {
    const DemoRow* least = least_words(point.rows, DType::f32, false);
    if (least == nullptr || least->label() == winner) continue;
    text += winner.empty() ? "least words: " : ", ";
    winner = least->label();
    text += fmt::format("{} from M = {}", winner, grouped(point.M));
  }
  return text.empty() ? text : text + "; ";
}

std::string learned(const Demo& demo, const Verdict& verdict) {
  std::string text;
  if (const DemoRow* ours = planned_row(demo.backward, DType::f32)) {
    text += learned_at_level(*ours, least_words(demo.backward, DType::f32, true));
  }
  text += learned_by_sweep(demo);
  text += fmt::format(
      "{} of {} runs are within the error bounds (worst {:.1e} of {:.0e} in f32, {:.1e} of {:.0e} "
      "in f64) and every count equals its formula",
      verdict.runs - verdict.wrong, verdict.runs, verdict.worst_f32, error_limit(DType::f32),
      verdict.worst_f64, error_limit(DType::f64));
  return text;
}

// ---- output

std::string rows_text(const char* title, const std::vector<DemoRow>& rows) {
  Table table(
      {title, "dtype", "error", "time", "Gflop/s", "words moved", "lower bound", "by", "ratio"}, 2);
  std::string notes;
  for (const DemoRow& row : rows) {
    const std::string name = row.label() + (row.planned ? " *" : "");
    if (!row.report) {
      table.add({name, name_of(row.dtype),
                 fmt::format("does not fit: needs M = {}", grouped(row.candidate.least_M))});
      continue;
    }
    const PassReport& report = *row.report;
    const bool bounded = !report.exceeds_M();
    table.add({name, name_of(row.dtype),
               fmt::format("{:.1e}{}", row.error, row.is_wrong() ? " !" : ""),
               seconds_text(report.seconds), fmt::format("{:.1f}", report.gflops),
               grouped(report.count.words()), bounded ? grouped(report.bound.words) : "-",
               bounded ? report.bound.name : "-", bounded ? ratio_text(report.ratio()) : "-"});
    if (report.overflow > 0 && row.dtype == DType::f32) {
      notes += fmt::format("  {}: as printed it needs {} words more than M\n", row.label(),
                           grouped(report.overflow));
    }
  }
  return table.text() + notes;
}

// One column an M, one row a schedule in one of its forms.
std::string sweep_text(const Demo& demo) {
  std::vector<std::string> header = {"M"}, regimes = {"regime"}, bounds = {"lower bound"};
  std::vector<std::string> errors[2] = {{"worst error f32"}, {"worst error f64"}};
  std::vector<std::vector<std::string>> lines;
  for (const SweepPoint& point : demo.sweep) {
    header.push_back(grouped(point.M) + "  ");
    regimes.push_back(std::string(name_of(theory::regime(demo.shape, point.M))) + "  ");
    const DemoRow* least = least_words(point.rows, DType::f32, false);
    double worst[2] = {0, 0};
    double bound = 0;
    std::size_t line = 0;
    for (const DemoRow& row : point.rows) {
      double& error = worst[row.dtype == DType::f32 ? 0 : 1];
      if (row.report && !(row.error <= error)) error = row.error;
      if (row.dtype != DType::f32 || row.literal()) continue;
      if (line == lines.size()) lines.push_back({row.label()});
      const std::string words = row.report ? grouped(row.report->count.words()) : "-";
      lines[line++].push_back(words + (&row == least ? " <" : "  "));
      if (row.report && !row.report->exceeds_M()) bound = std::max(bound, row.report->bound.words);
    }
    bounds.push_back(grouped(bound) + "  ");
    for (int i : {0, 1}) errors[i].push_back(fmt::format("{:.1e}  ", worst[i]));
  }
  Table table(header);
  table.add(regimes);
  for (const std::vector<std::string>& line : lines) table.add(line);
  table.add(bounds);
  for (const std::vector<std::string>& line : errors) table.add(line);
  return table.text();
}

void print_demo(const Demo& demo, const std::string& summary) {
  const kernels::Kernels* kernels = nullptr;
  require(api::selected_kernels(&kernels));
  fmt::print("{}\n", machine_text(machine::this_machine(), *kernels));
  fmt::print("attention layer: n = {}, m = {}, d = {}, dv = {}, A2 = A3{}\n", demo.shape.n,
             demo.shape.m, demo.shape.d, demo.shape.dv, demo.shape.tie == Tie::all ? " = A1" : "");
  for (const plan::PlanRequest& request : demo.levels) {
    plan::Plan plan;
    const Status status = plan::make_plan(request, &plan);
    fmt::print("{}: M = {} words, {}: {}\n", request.level, grouped(request.M),
               name_of(theory::regime(demo.shape, request.M)),
               status.is_ok() ? to_text(plan) : status.message());
  }
  fmt::print("\n{}", rows_text("backward at L2 (* planned)", demo.backward));
  fmt::print("  error: max|dX - ref| / max|ref| against float64; words of the run's own dtype\n");
  fmt::print("\n{}", rows_text("forward at L2 (* planned)", demo.forward));
  fmt::print("  error: of O against row_stream in f64\n");
  fmt::print("\nwords moved for dX in f32 by M (< the least, - M is too small)\n{}",
             sweep_text(demo));
  fmt::print("\nlearned: {}\n", summary);
}

Json row_json(const DemoRow& row) {
  Json json;
  json["schedule"] = name_of(row.candidate.schedule);
  json["form"] =
      has_form(row.candidate.schedule, Form::h) ? Json(name_of(row.candidate.blocks.form)) : Json();
  json["products"] = name_of(row.candidate.blocks.products);
  json["literal"] = row.literal();
  json["dtype"] = name_of(row.dtype);
  json["planned"] = row.planned;
  json["least_M"] = row.candidate.least_M;
  json["fits"] = row.report.has_value();
  if (row.report) {
    json["error"] = row.error;
    json["error_limit"] = error_limit(row.dtype);
    json["io"] = io_json(*row.report);
  }
  return json;
}

Json rows_json(const std::vector<DemoRow>& rows) {
  Json json = Json::array();
  for (const DemoRow& row : rows) json.push_back(row_json(row));
  return json;
}

void print_demo_json(const Demo& demo, const std::string& summary) {
  Json json;
  json["machine"] = machine_json(machine::this_machine());
  json["levels"] = Json::array();
  for (const plan::PlanRequest& request : demo.levels) {
    plan::Plan plan;
    const bool ok = plan::make_plan(request, &plan).is_ok();
    json["levels"].push_back({{"level", request.level},
                              {"M", request.M},
                              {"regime", name_of(theory::regime(demo.shape, request.M))},
                              {"plan", ok ? Json(to_text(plan)) : Json()}});
  }
  json["backward"] = rows_json(demo.backward);
  json["forward"] = rows_json(demo.forward);
  json["sweep"] = Json::array();
  for (const SweepPoint& point : demo.sweep) {
    json["sweep"].push_back({{"M", point.M}, {"rows", rows_json(point.rows)}});
  }
  json["learned"] = summary;
  print_json(json);
}

void run_demo(const DemoOptions& options) {
  const Demo demo = run_cases(options.directory);
  const Verdict verdict = judge(demo);
  const std::string summary = learned(demo, verdict);
  if (options.json) {
    print_demo_json(demo, summary);
  } else {
    print_demo(demo, summary);
  }
  if (verdict.wrong > 0) {
    throw RunError(std::to_string(verdict.wrong) + " of " + std::to_string(verdict.runs) +
                   " runs exceed the error bounds");
  }
}

}  // namespace

void add_demo_command(CLI::App* app) {
  CLI::App* command = app->add_subcommand(
      "demo", "every schedule on real data: error, time, words moved, lower bound");
  const auto options = std::make_shared<DemoOptions>();
  command
      ->add_option("DIR", options->directory,
                   "directory with A, X, Y, dO and golden_dX (float64), all .npy")
      ->required();
  add_json(command, &options->json);
  command->footer(
      "Exit code 1 if an error exceeds 5e-6 (f32) or 1e-13 (f64) of the largest value.");
  command->callback([options] { run_demo(*options); });
}

}  // namespace ioattn::tune
