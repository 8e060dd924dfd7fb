#pragma once

#include <algorithm>

#include "base/types.hpp"

namespace ioattn {

// Words moved between a fast memory of M words and the slow one, by a formula or as an observer
// counts them. Words are logical words of the problem's dtype.
struct IoCost {
  index_t reads = 0;
  index_t writes = 0;
  index_t created = 0;    // made resident without a read
  index_t footprint = 0;  // peak of resident words; of a phase, with those it found

  index_t words() const { return reads + writes; }
  bool operator==(const IoCost&) const = default;

  // One after the other in the same memory.
  constexpr IoCost& operator+=(const IoCost& next) {
    reads += next.reads;
    writes += next.writes;
    created += next.created;
    footprint = std::max(footprint, next.footprint);
    return *this;
  }
};
constexpr IoCost times(index_t count, const IoCost& one) {
  return {count * one.reads, count * one.writes, count * one.created, one.footprint};
}

}  // namespace ioattn
