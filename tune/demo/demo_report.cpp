#include "tune/demo/demo_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "machine/machine.hpp"
#include "tune/command_error.hpp"
#include "tune/options/options.hpp"
#include "tune/reports/machine_report.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

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

}  // namespace

void print_demo(const Demo& demo, const std::string& summary) {
  const kernels::Kernels* kernels = nullptr;
  require(api::selected_kernels(&kernels));
  fmt::print("{}\n", machine_text(machine::this_machine(), *kernels));
  fmt::print("attention layer: n = {}, m = {}, d = {}, dv = {}, A2 = A3{}\n", demo.shape.n,
             demo.shape.m, demo.shape.d, demo.shape.dv, demo.shape.tie == Tie::all ? " = A1" : "");
  for (const plan::LayerRequest& request : demo.levels) {
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

void print_demo_json(const Demo& demo, const std::string& summary) {
  Json json;
  json["machine"] = machine_json(machine::this_machine());
  json["levels"] = Json::array();
  for (const plan::LayerRequest& request : demo.levels) {
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

}  // namespace ioattn::tune
