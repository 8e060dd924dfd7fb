#include "tune/reports/machine_report.hpp"

#include <fmt/format.h>

#include "tune/text/table.hpp"

namespace ioattn::tune {

namespace {

Json cache_json(const machine::CacheLevel& cache) {
  Json json;
  json["level"] = "L" + std::to_string(cache.level);
  json["size_bytes"] = cache.size_bytes;
  json["line_bytes"] = cache.line_bytes;
  json["ways"] = cache.ways;
  json["sharing_cpus"] = cache.sharing_cpus;
  json["share_bytes"] = cache.share_bytes;
  json["source"] = name_of(cache.source);
  json["line_source"] = name_of(cache.line_source);
  json["fraction"] = machine::fast_memory(cache, DType::f32).fraction;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    json["M"][name_of(dtype)] = machine::fast_memory(cache, dtype).words;
  }
  return json;
}

}  // namespace

Json machine_json(const machine::Machine& machine) {
  Json json;
  json["vendor"] = machine.vendor;
  json["model"] = machine.model;
  json["virtual_machine"] = machine.virtual_machine;
  json["allowed_cpus"] = machine.allowed_cpus;
  json["cpus_source"] = name_of(machine.cpus_source);
  json["cpu_quota"] = machine.cpu_quota;
  json["quota_source"] = name_of(machine.quota_source);
  json["usable_threads"] = machine.usable_threads;
  json["isa"] = Json::array();
  for (int i = isa_count - 1; i >= 0; --i) {
    const Isa isa = static_cast<Isa>(i);
    if (!is_emulated(isa) && machine.isa.has(isa)) json["isa"].push_back(name_of(isa));
  }
  json["no_tiles"] = machine.no_tiles.empty() ? Json() : Json(machine.no_tiles);
  json["caches"] = Json::array();
  for (const machine::CacheLevel& cache : machine.caches) {
    json["caches"].push_back(cache_json(cache));
  }
  json["notes"] = machine.notes;
  return json;
}

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

}  // namespace ioattn::tune
