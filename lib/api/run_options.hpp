#pragma once

#include <optional>
#include <string_view>

#include "base/schedule.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::api {

// What a plan minimises: estimated time, or words that cross a level, which then decides.
enum class Objective : std::uint8_t { time, words_l1, words_l2 };
const char* name_of(Objective objective);  // "time", "words@L1", "words@L2"
bool parse_objective(std::string_view name, Objective* objective);
constexpr int level_of(Objective objective, int otherwise) {
  return objective == Objective::time ? otherwise : objective == Objective::words_l1 ? 1 : 2;
}

// What a caller may leave open; the defaults come from the machine and the environment.
struct RunOptions {
  int threads = 0;      // 0: all usable ones
  int cache_level = 2;  // decides unless M is given, or the objective names one
  index_t M = 0;        // words, exact; 0: of the cache level
  index_t memory_limit_bytes = -1;
  std::optional<Schedule> schedule;
  bool literal = false;
  wisdom::Rigor rigor = wisdom::Rigor::estimate;
  double time_limit_seconds = 0;  // of a search; 0: that of the rigor
  bool reproducible = false;      // no wisdom
  Objective objective = Objective::time;
};

// Where a plan came from.
struct PlanOrigin {
  const char* name = "estimate";                       // or "measure", "patient", "wisdom", "text"
  wisdom::Verdict wisdom = {wisdom::Reason::off, ""};  // fine if there was some of use
};

// Whether wisdom has a say: not where the caller gives M, the level that decides, or another
// objective than time.
bool takes_wisdom(const RunOptions& options);

}  // namespace ioattn::api
