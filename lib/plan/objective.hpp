#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ioattn::plan {

// What a plan minimises: estimated time, or words that cross the level that decides.
enum class Objective : std::uint8_t { time, words };

// What moving words costs in multiply-adds; the sum of both is what plans are compared by.
struct Price {
  Objective objective = Objective::time;
  // As long as one word past the deciding cache level: 2 words and 16 to 32 multiply-adds per
  // cycle. It decides where words and flops disagree (README.md). Of CPUs that were not measured.
  double per_word = 16;
  // As long as one word from the outer cache to the inner one: 4 words per cycle, and the hardware
  // prefetches.
  double per_inner_word = 4;
  bool is_calibrated = false;  // measured, on this CPU or on others of its vendor

  bool operator==(const Price&) const = default;
  bool of_words() const { return objective == Objective::words; }
  // What times are estimated with.
  Price of_time() const { return of_words() ? Price() : *this; }
};

// Where words decide, one outweighs all multiply-adds, and time decides among equals. A power of
// two, so that sums of words are exact.
constexpr Price price_of(Objective objective) {
  return objective == Objective::words ? Price{objective, 0x1p50, 4} : Price{};
}

// Of time, on a CPU whose rates were not measured: as others of its vendor took, from L3 Zen 4 and
// a Xeon with AMX (docs/tuning.md). By pairs Zen 4 gains less by long blocks in L3 than its rates
// tell, and on two threads nothing; what tiles of AMX read of L3 is panels, one line after the
// other.
constexpr Price assumed_price(std::string_view vendor, bool by_pairs) {
  if (vendor == "AuthenticAMD") return {Objective::time, 16, by_pairs ? 4 : 2.5, true};
  if (vendor == "GenuineIntel" && by_pairs) return {Objective::time, 16, 2, true};
  if (vendor == "GenuineIntel") return {Objective::time, 26, 11.5, true};
  return {};
}

// Of time, from the multiply-adds that a word from memory, or from L3 to L2, was measured to take.
// A factor of four about what is assumed of others: beyond it something else was measured, and
// blocks would be chosen for words, or for flops, alone.
constexpr Price measured_price(double per_word, double per_inner_word) {
  constexpr Price other;
  constexpr double most_times = 4;
  const double inner = std::min(per_inner_word, per_word);
  return {Objective::time,
          std::clamp(per_word, other.per_word / most_times, other.per_word * most_times),
          std::clamp(inner, other.per_inner_word / most_times, other.per_inner_word * most_times),
          true};
}

}  // namespace ioattn::plan
