#include "tune/demo/demo.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"
#include "tune/options/options.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

std::vector<plan::LayerRequest> plan_levels(const LayerProblem& problem) {
  std::vector<plan::LayerRequest> levels;
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
std::vector<index_t> sweep_sizes(const std::vector<plan::LayerRequest>& levels, index_t d) {
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

template <class Visit>
void for_each_row(const Demo& demo, Visit visit) {
  for (const DemoRow& row : demo.backward) visit(row);
  for (const DemoRow& row : demo.forward) visit(row);
  for (const SweepPoint& point : demo.sweep) {
    for (const DemoRow& row : point.rows) visit(row);
  }
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
                                 report.level, grouped(report.M), ours.label(),
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

}  // namespace

const DemoRow* least_words(const std::vector<DemoRow>& rows, DType dtype, bool paper_only) {
  const DemoRow* least = nullptr;
  for (const DemoRow& row : rows) {
    if (!row.report || row.dtype != dtype || row.literal()) continue;
    if (paper_only && !is_papers(row.candidate.schedule)) continue;
    if (least == nullptr || row.report->count.words() < least->report->count.words()) least = &row;
  }
  return least;
}

Demo run_demo_cases(const std::string& directory) {
  const LayerFiles<double> files = read_case<double>(directory);
  const std::string golden_path = directory + "/golden_dX.npy";
  if (read_npy_header(golden_path).dtype != DType::f64) {
    throw UsageError(golden_path + ": golden_dX is not float64, and errors in f64 are held to it");
  }
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

}  // namespace ioattn::tune
