#include "instruments/simulators/optimal_cache.hpp"

#include <algorithm>

namespace ioattn::instruments {

std::vector<std::uint32_t> next_uses(const TraceBuffer& trace) {
  std::vector<std::uint32_t> next(trace.size(), never_again);
  std::vector<std::uint32_t> seen;
  for (std::size_t i = trace.size(); i-- > 0;) {
    const std::uint32_t id = trace.id(i);
    if (id >= seen.size()) seen.resize(id + std::size_t{1}, never_again);
    next[i] = seen[id];
    seen[id] = static_cast<std::uint32_t>(i);
  }
  return next;
}

namespace {

// A resident line by its next use. Entries of a line that has been touched since are older than
// now, so they are never on top of the heap while a resident line is in it.
struct Use {
  std::uint32_t next, id;
  bool dirty;
  bool operator<(const Use& other) const {
    if (next != other.next) return next < other.next;
    return dirty && !other.dirty;
  }
};

}  // namespace

LineTraffic optimal_traffic(const TraceBuffer& trace, const std::vector<std::uint32_t>& next,
                            std::uint64_t capacity) {
  enum State : std::uint8_t { absent, clean, dirty };
  std::vector<State> states;
  std::vector<Use> heap;
  std::uint64_t resident = 0;
  LineTraffic traffic;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::uint32_t id = trace.id(i);
    if (id >= states.size()) states.resize(id + std::size_t{1}, absent);
    if (states[id] == absent) {
      ++traffic.fills;
      if (resident == capacity) {
        std::pop_heap(heap.begin(), heap.end());
        const Use victim = heap.back();
        heap.pop_back();
        traffic.write_backs += states[victim.id] == dirty;
        states[victim.id] = absent;
      } else {
        ++resident;
      }
      states[id] = clean;
    }
    if (trace.written(i)) states[id] = dirty;
    heap.push_back({next[i], id, states[id] == dirty});
    std::push_heap(heap.begin(), heap.end());
    // Entries of the past are at most as many again.
    if (heap.size() >= 2 * capacity + 64 && heap.size() > 4 * resident) {
      const auto is_past = [i](const Use& use) { return use.next <= i; };
      heap.erase(std::remove_if(heap.begin(), heap.end(), is_past), heap.end());
      std::make_heap(heap.begin(), heap.end());
    }
  }
  traffic.write_backs +=
      static_cast<std::uint64_t>(std::count(states.begin(), states.end(), dirty));
  return traffic;
}

}  // namespace ioattn::instruments
