#include "tune/passes/overflow_report.hpp"

#include "tune/text/table.hpp"

namespace ioattn::tune {

OverflowReport report_of(const OverflowCounts& counts,
                         const std::vector<api::RoundedResult>& results) {
  OverflowReport report;
  for (const auto& [name, operand] : results) report.emplace_back(name, counts.of(operand));
  return report;
}

Json overflows_json(const OverflowReport& report) {
  Json json;
  for (const auto& [name, count] : report) json[name] = count;
  return json;
}

std::string overflows_text(const OverflowReport& report) {
  std::string text;
  for (const auto& [name, count] : report)
    text += (text.empty() ? "  rounded to infinity: " : ", ") + name + " " + grouped(count);
  return text.empty() ? text : text + "\n";
}

}  // namespace ioattn::tune
