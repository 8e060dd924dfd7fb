#include "machine/cpu_id.hpp"

#include <algorithm>
#include <sstream>

#include "machine/machine.hpp"
#include "machine/text.hpp"

namespace ioattn::machine {
CpuId cpu_id(const Machine& machine) {
  return {machine.vendor, machine.family, machine.model_number};
}

bool parse_cpu_pattern(std::string_view text, CpuPattern* pattern) {
  std::istringstream words{std::string(text)};
  std::string vendor, family, word;
  if (!(words >> vendor >> family) || !parse_small(family)) return false;
  CpuPattern parsed = {vendor, *parse_small(family), {}};
  while (words >> word) {
    const std::size_t dash = std::min(word.find('-'), word.size());
    const auto first = parse_small(std::string_view(word).substr(0, dash));
    const auto last =
        dash == word.size() ? first : parse_small(std::string_view(word).substr(dash + 1));
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
