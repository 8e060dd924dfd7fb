#include "tune/passes/pass_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tune/command_error.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {

theory::Bound no_bound(const char* why) { return {0, "compulsory", why}; }

void set_bound(theory::AlgorithmClass algorithms, const BoundFor& bound, PassReport* report) {
  report->algorithms = algorithms;
  report->bound_M = std::max(report->M, report->count.footprint);
  report->bound = bound(report->bound_M);
  if (static_cast<double>(report->count.words()) < report->bound.words) {
    throw RunError("internal error: " + report->name() +
                   " moved fewer words than the lower bound " + report->bound.name);
  }
}

Json io_json(const PassReport& report) {
  Json json;
  json["pass"] = name_of(report.pass);
  json["level"] = report.level;
  json["M"] = report.M;
  add_count(report.count, &json);
  json["created_memory"] = report.created_memory;
  json["formula"] = report.formula;
  json["class"] = name_of(report.algorithms);
  json["lower_bound"] = report.bound.words;
  json["bound"] = report.bound.name;
  json["bound_M"] = report.bound_M;
  json["assumption"] = report.bound.assumption;
  json["ratio"] = report.bound.words > 0 ? Json(report.ratio()) : Json();
  json["regime"] = name_of(report.regime);
  json["phases"] = phases_json(report.phases);
  json["overflow"] = report.overflow;
  json["overflows"] = overflows_json(report.overflows);
  json["schedule"] = name_of(report.schedule);
  json["plan"] = report.plan_text;
  json["seconds"] = report.seconds;
  json["runs"] = report.runs;
  json["gflops"] = report.gflops;
  return json;
}

std::string io_text(const std::vector<PassReport>& reports) {
  Table table({"words moved", "level", "M", "reads", "writes", "created", "footprint", "formula",
               "lower bound", "by", "ratio"});
  std::string notes;
  for (const PassReport& report : reports) {
    const IoCost& count = report.count;
    const std::string pass = name_of(report.pass);
    table.add({report.name(), report.level, grouped(report.M), grouped(count.reads),
               grouped(count.writes), grouped(count.created), grouped(count.footprint),
               grouped(report.formula), grouped(report.bound.words), report.bound.name,
               report.bound.words > 0 ? ratio_text(report.ratio()) : "-"});
    if (report.phases.size() > 1) {
      for (const auto& phase : report.phases) {
        table.add({std::string("  phase ") + phase.name, "", "", grouped(phase.count.reads),
                   grouped(phase.count.writes), grouped(phase.count.created),
                   grouped(phase.count.footprint), "", "", "", ""});
      }
    }
    notes += fmt::format("{}: class {}, bound {}: {}\n", pass, name_of(report.algorithms),
                         report.bound.name, report.bound.assumption);
    if (report.exceeds_M()) {
      notes += fmt::format("{}: the run keeps {} words, and the bound is for as many\n", pass,
                           grouped(report.bound_M));
    }
    if (report.overflow > 0) {
      notes += fmt::format("{}: {} as printed in the paper exceeds M by {} words\n", pass,
                           name_of(report.schedule), grouped(report.overflow));
    }
  }
  return table.text() + notes;
}

}  // namespace ioattn::tune
