#include "instruments/cachegrind.hpp"

#include <algorithm>
#include <sstream>

namespace ioattn::instruments {
namespace {

constexpr int usual_ways = 8;

std::string text_of(const CachegrindCache& cache) {
  return std::to_string(cache.bytes) + "," + std::to_string(cache.ways) + "," +
         std::to_string(cache.line_bytes);
}

// Of a line such as "==42== LLd misses:  3,355  (  2,518 rd   +    837 wr)".
std::optional<index_t> misses(const std::string& printed, const std::string& level) {
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string process, name, what, number;
    words >> process >> name >> what >> number;
    if (name != level || what != "misses:") continue;
    number.erase(std::remove(number.begin(), number.end(), ','), number.end());
    index_t value = 0;
    if (std::istringstream(number) >> value) return value;
  }
  return std::nullopt;
}

}  // namespace

CachegrindCache cachegrind_cache(index_t bytes, int ways, int line_bytes) {
  const index_t lines = std::max<index_t>(bytes / line_bytes, 1);
  const index_t wanted = std::min<index_t>(ways > 0 ? ways : usual_ways, lines);
  index_t sets = 1;
  while (2 * sets <= lines / wanted) sets *= 2;
  const index_t taken = lines / sets;
  return {sets * taken * line_bytes, static_cast<int>(taken), line_bytes};
}

std::vector<std::string> cachegrind_command(const CachegrindCache& first,
                                            const CachegrindCache& last) {
  return {"valgrind",
          "--tool=cachegrind",
          "--cache-sim=yes",
          "--cachegrind-out-file=/dev/null",
          "--D1=" + text_of(first),
          "--LL=" + text_of(last)};
}

std::optional<DataMisses> data_misses(const std::string& printed) {
  const std::optional<index_t> first = misses(printed, "D1"), last = misses(printed, "LLd");
  if (!first || !last) return std::nullopt;
  return DataMisses{*first, *last};
}

}  // namespace ioattn::instruments
