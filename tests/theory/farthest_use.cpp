#include "theory/farthest_use.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace ioattn_test {

Moved moved_by_farthest_use(const std::vector<MultiplyAdd>& trace,
                            const std::vector<char>& in_memory, const std::vector<char>& output,
                            index_t M) {
  constexpr int never = std::numeric_limits<int>::max();
  const int length = int(trace.size());
  const std::size_t words = in_memory.size();
  std::vector<int> last(words, never);
  std::vector<std::array<int, 3>> next(trace.size());
  for (int t = length - 1; t >= 0; --t) {
    const MultiplyAdd& op = trace[std::size_t(t)];
    const std::array<int, 3> used = {op.a, op.b, op.c};
    for (std::size_t i = 0; i < 3; ++i) next[std::size_t(t)][i] = last[std::size_t(used[i])];
    for (const int word : used) last[std::size_t(word)] = t;
  }
  struct State {
    bool resident = false, dirty = false, in_memory = false;
    int next = 0;
  };
  std::vector<State> state(words);
  for (std::size_t w = 0; w < words; ++w) state[w].in_memory = in_memory[w] != 0;
  std::set<std::pair<int, int>> queues[2];  // clean, dirty: next use and word
  index_t resident = 0;
  Moved moved;
  const auto drop = [&](int word) {
    State& s = state[std::size_t(word)];
    queues[s.dirty].erase({s.next, word});
    if (s.dirty && (s.next != never || output[std::size_t(word)] != 0)) {
      ++moved.writes;
      s.in_memory = true;
    }
    s.resident = s.dirty = false;
    --resident;
  };
  for (int t = 0; t < length; ++t) {
    const MultiplyAdd& op = trace[std::size_t(t)];
    const std::array<int, 3> used = {op.a, op.b, op.c};
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == 1 && op.b == op.a) continue;
      State& s = state[std::size_t(used[i])];
      if (s.resident) {
        queues[s.dirty].erase({s.next, used[i]});
      } else {
        if (resident == M) {
          int victim = -1;
          double farthest = -1;
          for (const int dirty : {0, 1}) {
            for (auto at = queues[dirty].rbegin(); at != queues[dirty].rend(); ++at) {
              if (std::find(used.begin(), used.end(), at->second) != used.end()) continue;
              const double wait = double(std::min(at->first, 2 * length) - t);
              const double value = wait * (dirty == 1 ? 0.6 : 1);
              if (value > farthest) farthest = value, victim = at->second;
              break;
            }
          }
          drop(victim);
        }
        if (s.in_memory) ++moved.reads;
        s.resident = true;
        ++resident;
      }
      if (i == 2) s.dirty = true, s.in_memory = false;
      s.next = next[std::size_t(t)][i];
      queues[s.dirty].insert({s.next, used[i]});
    }
    for (const int word : used) {
      if (state[std::size_t(word)].resident && state[std::size_t(word)].next == never) drop(word);
    }
  }
  return moved;
}

}  // namespace ioattn_test
