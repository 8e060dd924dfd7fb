#include "tune/text/report_json.hpp"

#include <fmt/format.h>

namespace ioattn::tune {

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
