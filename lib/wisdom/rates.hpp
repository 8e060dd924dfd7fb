#pragma once

#include <map>
#include <string>

#include "base/types.hpp"
#include "wisdom/verdict.hpp"

namespace ioattn::wisdom {

// How fast a thread multiplies and moves numbers of a type while all others do the same, measured
// once: what estimates are made from.
struct Rates {
  double multiply_adds = 0;       // a second, of the product kernel
  double word_seconds = 0;        // of a word from memory
  double inner_word_seconds = 0;  // of a word from L3 to L2
  index_t threads = 1;            // that were busy
  std::string date;               // as Record::date
  std::string unknown;            // as Record::unknown

  bool operator==(const Rates&) const = default;
};
using RatesByType = std::map<std::string, Rates>;  // by the type's name

// Fine if a CPU may have such rates; else what is wrong.
Verdict check(const Rates& rates);

}  // namespace ioattn::wisdom
