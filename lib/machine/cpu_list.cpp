#include "machine/cpu_list.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>

namespace ioattn::machine {
namespace {

// More than any kernel supports; keeps a damaged list from filling the memory.
constexpr int cpu_limit = 1 << 16;

std::optional<int> take_cpu(std::string_view* text) {
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || value < 0 || value >= cpu_limit) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(rest - text->data()));
  return value;
}

}  // namespace

CpuList affinity() {
  // The kernel refuses masks shorter than its own, whose length it does not tell, and fills what it
  // has of a longer one.
  cpu_set_t mask[cpu_limit / CPU_SETSIZE] = {};
  CpuList cpus;
  if (sched_getaffinity(0, sizeof mask, mask) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < cpu_limit; ++cpu) {
    if (CPU_ISSET(cpu % CPU_SETSIZE, &mask[cpu / CPU_SETSIZE])) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

std::optional<CpuList> parse_cpu_list(std::string_view text) {
  CpuList cpus;
  while (!text.empty()) {
    const std::optional<int> first = take_cpu(&text);
    if (!first) return std::nullopt;
    std::optional<int> last = first;
    if (!text.empty() && text.front() == '-') {
      text.remove_prefix(1);
      last = take_cpu(&text);
      if (!last || *last < *first) return std::nullopt;
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (text.empty()) break;
    if (text.front() != ',' || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  sort_unique(&cpus);
  return cpus;
}

void sort_unique(CpuList* cpus) {
  std::sort(cpus->begin(), cpus->end());
  cpus->erase(std::unique(cpus->begin(), cpus->end()), cpus->end());
}

int count_common(const CpuList& a, const CpuList& b) {
  return static_cast<int>(std::count_if(
      a.begin(), a.end(), [&](int cpu) { return std::binary_search(b.begin(), b.end(), cpu); }));
}

}  // namespace ioattn::machine
