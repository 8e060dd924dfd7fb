#include "tune/passes/report_text.hpp"

#include <fmt/format.h>

#include "machine/machine.hpp"
#include "tune/text/report_json.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {

std::string machine_text(const machine::Machine& machine, const kernels::Kernels& selected) {
  const auto or_unknown = [](int value) { return value > 0 ? std::to_string(value) : "?"; };
  std::string text =
      fmt::format("machine: {}{}\n", machine.model.empty() ? "unknown CPU" : machine.model,
                  machine.virtual_machine ? " (virtual)" : "");
  std::string quota = machine.cpu_quota > 0 ? fmt::format("{:g} CPUs", machine.cpu_quota) : "none";
  text += fmt::format("threads: {} ({} CPUs allowed, by {}; CPU quota: {}), kernels: {}\n",
                      machine.usable_threads, machine.allowed_cpus, name_of(machine.cpus_source),
                      quota, name_of(selected.isa));
  text += fmt::format("AMX tiles: {}\n", machine.no_tiles.empty() ? "granted by the kernel"
                                                                  : "none, " + machine.no_tiles);
  Table table({"level", "size", "line", "ways", "CPUs sharing", "share", "fraction",
               "M 16-bit (words)", "M f32 (words)", "M f64 (words)", "source"});
  for (const machine::CacheLevel& cache : machine.caches) {
    const machine::FastMemory f32 = machine::fast_memory(cache, DType::f32);
    table.add({"L" + std::to_string(cache.level), bytes_text(cache.size_bytes),
               or_unknown(cache.line_bytes), or_unknown(cache.ways), or_unknown(cache.sharing_cpus),
               bytes_text(cache.share_bytes), fmt::format("{:g}", f32.fraction),
               grouped(machine::fast_memory(cache, DType::bf16).words), grouped(f32.words),
               grouped(machine::fast_memory(cache, DType::f64).words), name_of(cache.source)});
  }
  text += table.text();
  for (const std::string& note : machine.notes) text += "note: " + note + "\n";
  return text;
}

std::string io_text(const std::vector<PassReport>& reports) {
  Table table({"words moved", "level", "M", "reads", "writes", "created", "footprint", "formula",
               "lower bound", "by", "ratio"});
  std::string notes;
  for (const PassReport& report : reports) {
    const IoCost& count = report.count;
    const std::string pass = name_of(report.planned.pass);
    table.add({pass + " " + name_of(report.planned.plan.schedule), report.planned.plan.level,
               grouped(report.planned.M), grouped(count.reads), grouped(count.writes),
               grouped(count.created), grouped(count.footprint), grouped(report.formula),
               grouped(report.bound.words), report.bound.name,
               report.bound.words > 0 ? ratio_text(report.ratio()) : "-"});
    if (report.phases.size() > 1) {
      for (const auto& phase : report.phases) {
        table.add({std::string("  phase ") + phase.name, "", "", grouped(phase.count.reads),
                   grouped(phase.count.writes), grouped(phase.count.created),
                   grouped(phase.count.footprint), "", "", "", ""});
      }
    }
    notes += fmt::format("{}: bound {}: {}\n", pass, report.bound.name, report.bound.assumption);
    if (report.exceeds_M()) {
      notes += fmt::format("{}: the run keeps {} words, and the bound is for as many\n", pass,
                           grouped(report.bound_M));
    }
    if (report.overflow > 0) {
      notes += fmt::format("{}: {} as printed in the paper exceeds M by {} words\n", pass,
                           name_of(report.planned.plan.schedule), grouped(report.overflow));
    }
  }
  return table.text() + notes;
}

}  // namespace ioattn::tune
