#include "tune/traffic/counter_report.hpp"

#include <fmt/format.h>

#include "machine/machine.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

using instruments::CounterValue;
using instruments::ProofResult;
using instruments::QuantityValue;
using instruments::Validity;

// Members of what may be missing.
void add_validity(Validity validity, int error, const std::string& reason, Json* json) {
  (*json)["validity"] = name_of(validity);
  (*json)["errno"] = error == 0 ? Json() : Json(error);
  (*json)["reason"] = reason.empty() ? Json() : Json(reason);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

}  // namespace

int line_bytes_of(int level) {
  const machine::CacheLevel* cache = machine::this_machine().cache(level);
  constexpr int usual = 64;
  return cache != nullptr && cache->line_bytes > 0 ? cache->line_bytes : usual;
}

Json events_json(const std::vector<CounterValue>& values) {
  Json list = Json::array();
  for (const CounterValue& value : values) {
    Json item;
    item["event"] = value.event.name;
    item["text"] = value.event.text.empty() ? Json() : Json(value.event.text);
    item["count"] = or_null(value.count);
    item["estimate"] = or_null(value.estimate);
    item["enabled_ns"] = value.enabled_ns;
    item["running_ns"] = value.running_ns;
    add_validity(value.validity, value.error, value.reason, &item);
    list.push_back(item);
  }
  return list;
}

Json quantity_json(const QuantityValue& quantity) {
  Json item;
  item["name"] = quantity.name();
  item["lines"] = or_null(quantity.lines);
  item["bytes"] = quantity.lines ? Json(*quantity.lines * line_bytes_of(quantity.level)) : Json();
  item["formula"] = quantity.formula.empty() ? Json() : Json(quantity.formula);
  add_validity(quantity.validity, quantity.error, quantity.reason, &item);
  return item;
}

Json traffic_json(const std::vector<QuantityValue>& quantities) {
  Json list = Json::array();
  for (const QuantityValue& quantity : quantities) list.push_back(quantity_json(quantity));
  return list;
}

std::string events_text(const std::vector<CounterValue>& values) {
  Table table({"event", "count", "running", "validity"});
  for (const CounterValue& value : values) {
    if (!value.count) {
      table.add({value.event.name, "unavailable: " + value.reason});
      continue;
    }
    std::string how = name_of(value.validity);
    if (value.estimate && value.validity == Validity::multiplexed) {
      how += ", about " + grouped(*value.estimate) + " in all";
    } else if (!value.reason.empty()) {
      how += ", " + value.reason;
    }
    table.add({value.event.name, grouped(static_cast<index_t>(*value.count)),
               percent(value.running_share()), how});
  }
  return table.text();
}

std::string meanings_text(const std::vector<CounterValue>& values) {
  std::string text;
  for (const CounterValue& value : values) {
    if (is_kernel_event(value.event.id) && !value.event.text.empty()) {
      text += fmt::format("{}: {}\n", value.event.name, value.event.text);
    }
  }
  return text;
}

std::string note_text(const std::string& note) {
  return note.empty() ? "" : "note: " + note + "\n";
}
Json note_json(const std::string& note) { return note.empty() ? Json() : Json(note); }

std::string traffic_text(const std::vector<QuantityValue>& quantities) {
  Table table({"traffic", "lines", "MiB", "how"});
  for (const QuantityValue& quantity : quantities) {
    if (!quantity.lines) {
      table.add({quantity.name(), "unavailable: " + quantity.reason});
      continue;
    }
    constexpr double mebibyte = 1 << 20;
    const bool exact = quantity.validity == Validity::exact;
    table.add(
        {quantity.name(), grouped(*quantity.lines),
         fmt::format("{:.2f}", *quantity.lines * line_bytes_of(quantity.level) / mebibyte),
         quantity.formula +
             (exact ? "" : fmt::format(" ({}: {})", name_of(quantity.validity), quantity.reason))});
  }
  return table.text();
}

std::string event_file_text(const instruments::EventFile& file) {
  std::string text = "CPU: " + file.cpu + "\n";
  for (const instruments::Event& event : file.events) {
    text +=
        fmt::format("event {} {}\n  {}\n", event.name, perf_stat_name(event, file.pmu), event.text);
  }
  for (const instruments::Quantity& quantity : file.quantities) {
    const std::string formula = file.formula_text(quantity);
    text += fmt::format("{} = {}\n", quantity.name(), formula.empty() ? "unavailable" : formula);
    if (!quantity.text.empty()) text += "  " + quantity.text + "\n";
  }
  for (const instruments::Event& event : file.generic) {
    text += fmt::format("generic {} is\n  {}\n", event.name, event.text);
  }
  return text;
}

Json event_file_json(const instruments::EventFile& file) {
  const auto event_json = [&](const instruments::Event& event) {
    return Json(
        {{"name", event.name}, {"perf", perf_stat_name(event, file.pmu)}, {"text", event.text}});
  };
  Json json;
  json["cpu"] = file.cpu;
  json["events"] = Json::array();
  for (const instruments::Event& event : file.events) json["events"].push_back(event_json(event));
  json["quantities"] = Json::array();
  for (const instruments::Quantity& quantity : file.quantities) {
    const std::string formula = file.formula_text(quantity);
    json["quantities"].push_back({{"name", quantity.name()},
                                  {"formula", formula.empty() ? Json() : Json(formula)},
                                  {"text", quantity.text}});
  }
  json["generic"] = Json::array();
  for (const instruments::Event& event : file.generic) {
    json["generic"].push_back(event_json(event));
  }
  return json;
}

std::string proof_text(const std::vector<ProofResult>& results) {
  Table table({"kernel", "traffic", "lines expected", "lines counted", "ratio", "verdict"}, 2);
  for (const ProofResult& result : results) {
    const std::string kernel = fmt::format("{}: {}", result.kernel->name, result.kernel->text);
    if (!result.counted.lines) {
      table.add({kernel, result.counted.name(), grouped(result.expected_lines),
                 "unavailable: " + result.counted.reason});
      continue;
    }
    const bool exact = result.counted.validity == Validity::exact;
    table.add({kernel, result.counted.name(), grouped(result.expected_lines),
               grouped(*result.counted.lines), result.ratio() ? ratio_text(*result.ratio()) : "-",
               !exact            ? name_of(result.counted.validity)
               : result.agrees() ? "agrees"
                                 : "DISAGREES"});
  }
  return table.text();
}

Json proof_json(const std::vector<ProofResult>& results) {
  Json list = Json::array();
  for (const ProofResult& result : results) {
    Json item;
    item["kernel"] = result.kernel->name;
    item["expected_lines"] = result.expected_lines;
    item["ratio"] = or_null(result.ratio());
    item["agrees"] = result.counted.lines ? Json(result.agrees()) : Json();
    item["counted"] = quantity_json(result.counted);
    list.push_back(item);
  }
  return list;
}

}  // namespace ioattn::tune
