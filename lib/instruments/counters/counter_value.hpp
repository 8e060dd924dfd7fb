#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "instruments/counters/event_file.hpp"

namespace ioattn::instruments {

// Each is worse than the one before it; a sum is as bad as the worst of its parts.
enum class Validity : std::uint8_t {
  exact,        // counted all the time
  multiplexed,  // counted part of the time, as others used the counters too
  incomplete,   // threads came that nothing was opened for
  unavailable,  // not counted
};
const char* name_of(Validity validity);

// What was counted of one event. Not counted is no number, never 0.
struct CounterValue {
  Event event;
  Validity validity = Validity::unavailable;
  std::optional<std::uint64_t> count;  // as counted, while running
  std::uint64_t enabled_ns = 0;        // that its threads ran while it was to count, in all
  std::uint64_t running_ns = 0;        // that it did count
  int error = 0;                       // errno, if a call failed
  std::string reason;                  // why not exact
  bool starved = false;                // a group of it ran and never got a counter

  std::optional<double> estimate;  // count x enabled / running, summed over groups

  double running_share() const;  // running / enabled; 0 if it never ran
  // A group's count and times.
  void add(std::uint64_t more, std::uint64_t enabled, std::uint64_t running);
};

// A quantity in cache lines, the sum of its formula.
struct QuantityValue {
  int level = 0;
  CacheTraffic kind = CacheTraffic::fills;
  Validity validity = Validity::unavailable;
  std::optional<double> lines;  // estimated if multiplexed
  std::string formula;          // of event names; "" if nothing counts it
  int error = 0;
  std::string reason;

  std::string name() const;
};

// Of values that stand in the order of the file's events.
QuantityValue evaluate(const EventFile& file, const Quantity& quantity,
                       const std::vector<CounterValue>& values);
std::vector<QuantityValue> evaluate(const EventFile& file, const std::vector<CounterValue>& values);

// Where lines must have moved a count of none is no count: becomes unavailable.
void refuse_zero(QuantityValue* quantity);

}  // namespace ioattn::instruments
