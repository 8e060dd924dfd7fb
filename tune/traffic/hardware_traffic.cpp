#include "tune/traffic/hardware_traffic.hpp"

#include <fmt/format.h>

#include <chrono>

#include "tune/text/table.hpp"
#include "tune/traffic/counter_report.hpp"
#include "tune/traffic/eviction.hpp"

namespace ioattn::tune {
namespace {

using instruments::CacheTraffic;
using instruments::QuantityValue;
using instruments::Validity;

constexpr double counted_seconds = 0.1;
constexpr int most_runs = 1000;

double words_of(const QuantityValue& quantity, double lines, DType dtype) {
  return lines * line_bytes_of(quantity.level) / static_cast<double>(size_of(dtype));
}

// For one run of several.
QuantityValue of_one_run(QuantityValue quantity, int runs) {
  if (quantity.lines) *quantity.lines /= runs;
  return quantity;
}

QuantityValue quantity_of(const instruments::EventFile& file, int level, CacheTraffic kind,
                          const std::vector<instruments::CounterValue>& values) {
  if (const instruments::Quantity* quantity = file.find(level, kind)) {
    return evaluate(file, *quantity, values);
  }
  QuantityValue none;
  none.level = level;
  none.kind = kind;
  none.reason = "no event of the file for " + file.cpu + " counts it";
  return none;
}

double expected_words(const Traffic& traffic, CacheTraffic kind) {
  return kind == CacheTraffic::fills ? expected_in(traffic) : expected_out(traffic);
}

const char* parts_of(CacheTraffic kind) {
  return kind == CacheTraffic::fills ? "reads + created_memory" : "writes + created_memory";
}

}  // namespace

HardwareTraffic count_hardware(int level, index_t capacity_bytes, TrafficCase* problem,
                               CounterSetup* setup) {
  using clock = std::chrono::steady_clock;
  HardwareTraffic result;
  const Eviction evict(capacity_bytes);
  problem->run(nullptr, nullptr);  // its threads exist from now on
  instruments::ThreadCounters counters(setup->system(), setup->events(), setup->surroundings());
  double seconds = 0;
  do {
    evict();
    const auto start = clock::now();
    counters.start();
    problem->run(nullptr, nullptr);
    counters.stop();
    seconds += std::chrono::duration<double>(clock::now() - start).count();
    ++result.runs;
  } while (seconds < counted_seconds && result.runs < most_runs);
  result.threads = counters.threads();
  const std::vector<instruments::CounterValue> values = counters.read();
  const auto of_run = [&](CacheTraffic kind) {
    return of_one_run(quantity_of(setup->file(), level, kind, values), result.runs);
  };
  result.fills = of_run(CacheTraffic::fills);
  refuse_zero(&result.fills);  // each run began with caches that held none of it
  result.write_backs = of_run(CacheTraffic::write_backs);
  result.named.assign(values.begin() + std::ptrdiff_t(setup->file().events.size()), values.end());
  return result;
}

std::string hardware_text(const HardwareTraffic& hardware, const Traffic& traffic, DType dtype) {
  std::string text;
  for (const QuantityValue* quantity : {&hardware.fills, &hardware.write_backs}) {
    if (!quantity->lines) {
      text += fmt::format("  hardware {}: unavailable: {}\n", quantity->name(), quantity->reason);
      continue;
    }
    const double words = words_of(*quantity, *quantity->lines, dtype);
    text += fmt::format(
        "  hardware {}: {} words, {} of {} ({}{}; mean of {} runs, {} threads)\n", quantity->name(),
        grouped(words), ratio_text(words / expected_words(traffic, quantity->kind)),
        parts_of(quantity->kind), quantity->formula,
        quantity->validity == Validity::exact
            ? ""
            : fmt::format(", {}: {}", name_of(quantity->validity), quantity->reason),
        hardware.runs, hardware.threads);
  }
  if (!hardware.named.empty()) {
    text += fmt::format("  of {} runs:\n", hardware.runs) + events_text(hardware.named) +
            meanings_text(hardware.named);
  }
  return text;
}

Json hardware_json(const HardwareTraffic& hardware, const Traffic& traffic, DType dtype) {
  Json json;
  json["runs"] = hardware.runs;
  json["threads"] = hardware.threads;
  for (const QuantityValue* quantity : {&hardware.fills, &hardware.write_backs}) {
    Json item = quantity_json(*quantity);
    item["words"] = Json();
    item["ratio"] = Json();
    if (quantity->lines) {
      const double words = words_of(*quantity, *quantity->lines, dtype);
      item["words"] = words;
      item["ratio"] = words / expected_words(traffic, quantity->kind);
    }
    json[quantity->kind == CacheTraffic::fills ? "fills" : "write_backs"] = item;
  }
  json["events"] = events_json(hardware.named);
  return json;
}

std::optional<Marker> hardware_marker(const HardwareTraffic& hardware, const Traffic& traffic,
                                      DType dtype) {
  Marker marker;
  std::string counted;
  marker.M = static_cast<double>(traffic.plan.M);
  for (const QuantityValue* quantity : {&hardware.fills, &hardware.write_backs}) {
    if (!quantity->lines) continue;
    marker.words += words_of(*quantity, *quantity->lines, dtype);
    const char* const kind = quantity->kind == CacheTraffic::fills ? "fills" : "write-backs";
    if (!counted.empty()) counted += " + ";
    counted += kind;
    if (quantity->validity != Validity::exact) {
      counted += fmt::format(" ({})", name_of(quantity->validity));
    }
  }
  if (counted.empty()) return std::nullopt;
  const bool is_half = !hardware.fills.lines || !hardware.write_backs.lines;
  marker.title =
      fmt::format("hardware, {}{}, {}", counted, is_half ? " only" : "", traffic.plan.level);
  return marker;
}

}  // namespace ioattn::tune
