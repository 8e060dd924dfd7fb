#pragma once

#include <optional>
#include <vector>

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "theory/bounds.hpp"

namespace ioattn::tune {

// What one schedule moves at an M: the fewest words that are known of, by its formula at word level
// or in blocks; and those in blocks of this library, not rounded to register tiles.
struct ScheduleWords {
  Schedule schedule = Schedule::naive;
  theory::AlgorithmClass algorithms = theory::AlgorithmClass::F;
  std::optional<index_t> least_words;    // empty: does not fit
  std::optional<index_t> planned_words;  // empty: does not fit, or not implemented
  index_t least_M = 0;                   // in blocks; 0: not implemented
  theory::Bound bound;                   // of its class

  double ratio() const { return static_cast<double>(least_words.value_or(0)) / bound.words; }
};

// Of every schedule of a pass that has blocks.
std::vector<ScheduleWords> schedule_words(Pass pass, const LayerShape& shape, index_t M);

// The least words of any schedule from such a list, or, if it has none there, by its formula.
std::optional<index_t> least_words(const std::vector<ScheduleWords>& list, Pass pass,
                                   Schedule schedule, const LayerShape& shape, index_t M);

}  // namespace ioattn::tune
