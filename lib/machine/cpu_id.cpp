#include "machine/cpu_id.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

std::optional<int> number(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x";
  if (hexadecimal) text.remove_prefix(2);
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

CpuId read_cpu_id(const std::string& proc_root) {
  CpuId cpu;
  std::ifstream file(proc_root + "/cpuinfo");
  for (std::string line; next_line(&file, &line);) {
    if (trimmed(line).empty() && !cpu.vendor.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = trimmed(std::string_view(line).substr(0, colon));
    const std::string_view value = trimmed(std::string_view(line).substr(colon + 1));
    if (key == "vendor_id" || key == "CPU implementer") cpu.vendor = value;
    if (key == "cpu family" || key == "CPU architecture") cpu.family = number(value).value_or(0);
    if (key == "model" || key == "CPU part") cpu.model = number(value).value_or(0);
  }
  return cpu;
}

bool parse_cpu_pattern(std::string_view text, CpuPattern* pattern) {
  std::istringstream words{std::string(text)};
  std::string vendor, family, word;
  if (!(words >> vendor >> family) || !number(family)) return false;
  CpuPattern parsed = {vendor, *number(family), {}};
  while (words >> word) {
    const std::size_t dash = std::min(word.find('-'), word.size());
    const auto first = number(std::string_view(word).substr(0, dash));
    const auto last = dash == word.size() ? first : number(std::string_view(word).substr(dash + 1));
    if (!first || !last || *first > *last) return false;
    parsed.models.push_back({*first, *last});
  }
  *pattern = std::move(parsed);
  return true;
}

bool matches(const CpuId& cpu, const CpuPattern& pattern) {
  if (cpu.vendor != pattern.vendor || cpu.family != pattern.family) return false;
  return pattern.models.empty() ||
         std::any_of(pattern.models.begin(), pattern.models.end(), [&](CpuPattern::Range range) {
           return range.first <= cpu.model && cpu.model <= range.last;
         });
}

}  // namespace ioattn::machine
