#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

// How Valgrind's Cachegrind is asked, and what it answers. Starting it is the caller's.
namespace ioattn::instruments {

// A cache as Cachegrind has them: a power of two of sets.
struct CachegrindCache {
  index_t bytes = 0;
  int ways = 0, line_bytes = 0;

  bool operator==(const CachegrindCache&) const = default;
};

// The nearest that is not larger and has no fewer ways, up to twice as many where sets are no power
// of two; 8 where they are unknown (0).
CachegrindCache cachegrind_cache(index_t bytes, int ways, int line_bytes);

// The words before those of the program that is watched.
std::vector<std::string> cachegrind_command(const CachegrindCache& first,
                                            const CachegrindCache& last);

// Lines that were brought in for data; what was written back it does not count.
struct DataMisses {
  index_t first = 0, last = 0;  // D1, LL
};

// From what it printed; none if it did not come to an end.
std::optional<DataMisses> data_misses(const std::string& printed);

}  // namespace ioattn::instruments
