#include "tune/text/report_json.hpp"
#include "machine/machine.hpp"

#include <fmt/format.h>

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

void add_count(const IoCost& count, Json* json) {
  (*json)["reads"] = count.reads;
  (*json)["writes"] = count.writes;
  (*json)["created"] = count.created;
  (*json)["footprint"] = count.footprint;
}

Json phases_json(const std::vector<instruments::IoCounter::Phase>& phases) {
  Json list = Json::array();
  for (const auto& phase : phases) {
    Json item;
    item["name"] = phase.name;
    add_count(phase.count, &item);
    list.push_back(item);
  }
  return list;
}

void print_json(const Json& json) {
  // Paths and model names need not be UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

std::string bytes_text(index_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= index_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.2f} MiB", value / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", value / (1 << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace ioattn::tune
