#include "pebble/optimum.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "pebble/masks.hpp"

namespace ioattn::pebble {
namespace {

Status check(const Cdag& graph, index_t M, node_t most_nodes) {
  if (graph.size() > most_nodes) {
    return Status::error(StatusCode::unsupported,
                         "the graph has %lld nodes; a search takes at most %lld",
                         static_cast<long long>(graph.size()), static_cast<long long>(most_nodes));
  }
  std::size_t most_parents = 0;
  for (node_t v = 0; v < graph.size(); ++v)
    most_parents = std::max(most_parents, graph.parents(v).size());
  if (M < static_cast<index_t>(most_parents) + 1) {
    return Status::error(StatusCode::fast_memory_too_small,
                         "M = %lld red pebbles compute nothing: the least is %lld",
                         static_cast<long long>(M), static_cast<long long>(most_parents) + 1);
  }
  return Status::ok();
}

Status gave_up(index_t most_states, index_t words) {
  return Status::error(StatusCode::memory_limit,
                       "more than %lld states; at least %lld words are needed",
                       static_cast<long long>(most_states), static_cast<long long>(words));
}

std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 31;
  x *= 0x9E3779B97F4A7C15U;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9U;
  return x ^ (x >> 32);
}

// Red pebbles in the low half, blue ones of computed nodes in the high one.
struct Hash {
  std::size_t operator()(std::uint64_t x) const { return mixed(x); }
};

class Search {
 public:
  Search(const Cdag& graph, index_t M) : masks_(graph), M_(static_cast<int>(M)) {}

  Status run(index_t most_states, Optimum* result) {
    reach(0, 0);
    while (!queue_.empty()) {
      const mask_t state = queue_.front().first;
      const index_t words = queue_.front().second;
      queue_.pop_front();
      if (least_.at(state) < words) continue;
      const mask_t red = state & low, blue = (state >> 32) | masks_.inputs;
      if ((masks_.outputs & ~blue) == 0) {
        *result = {words, static_cast<index_t>(least_.size())};
        return Status::ok();
      }
      if (static_cast<index_t>(least_.size()) > most_states) return gave_up(most_states, words);
      for_each(masks_.all, [&](node_t v) { expand(state, words, red, blue, v); });
    }
    return Status::error(StatusCode::internal, "an output cannot be reached");
  }

 private:
  static constexpr mask_t low = 0xffffffffU;

  void expand(mask_t state, index_t words, mask_t red, mask_t blue, node_t v) {
    const mask_t b = bit(v);
    if ((red & b) != 0) {
      if ((blue & b) == 0) reach(state | (b << 32), words + 1);
      return;
    }
    if ((blue & b) != 0) place(state, words + 1, red, b, 0);
    const bool computable = (masks_.inputs & b) == 0 && (masks_.parents_of(v) & ~red) == 0;
    if (computable) place(state, words, red, b, masks_.parents_of(v));
  }
  // Pebbles are taken away only where there is no room.
  void place(mask_t state, index_t words, mask_t red, mask_t b, mask_t kept) {
    if (std::popcount(red) < M_) return reach(state | b, words);
    for_each(red & ~kept, [&](node_t out) { reach((state & ~bit(out)) | b, words); });
  }
  void reach(mask_t state, index_t words) {
    const auto [known, is_new] = least_.emplace(state, words);
    if (!is_new && known->second <= words) return;
    known->second = words;
    // The queue holds states of two costs at a time, the cheaper first.
    if (!queue_.empty() && words <= queue_.front().second) {
      queue_.push_front({state, words});
    } else {
      queue_.push_back({state, words});
    }
  }

  Masks masks_;
  int M_;
  std::unordered_map<mask_t, index_t, Hash> least_;
  std::deque<std::pair<mask_t, index_t>> queue_;
};

}  // namespace

Status least_words(const Cdag& graph, index_t M, index_t most_states, Optimum* result) {
  const Status checked = check(graph, M, 32);
  return checked.is_ok() ? Search(graph, std::min<index_t>(M, 32)).run(most_states, result)
                         : checked;
}

namespace {

// Every node is computed at most once; outputs are written as they are computed.
struct Once {
  mask_t computed = 0, red = 0, blue = 0;  // blue: of computed nodes that are still needed
  bool operator==(const Once&) const = default;
};
struct OnceHash {
  std::size_t operator()(const Once& s) const {
    return mixed(s.computed * 0x9E3779B97F4A7C15U ^ s.red * 0xBF58476D1CE4E5B9U ^
                 s.blue * 0x94D049BB133111EBU);
  }
};

class OnceSearch {
 public:
  OnceSearch(const Cdag& graph, index_t M) : masks_(graph), M_(static_cast<int>(M)) {}

  Status run(index_t most_states, Optimum* result) {
    reach({}, 0);
    for (std::size_t estimate = 0; estimate < queue_.size(); ++estimate) {
      while (!queue_[estimate].empty()) {
        const Once state = queue_[estimate].back().first;
        const index_t words = queue_[estimate].back().second;
        queue_[estimate].pop_back();
        if (least_.at(state) < words) continue;
        if (still_to_write(state) == 0) {
          *result = {words, static_cast<index_t>(least_.size())};
          return Status::ok();
        }
        if (static_cast<index_t>(least_.size()) > most_states)
          return gave_up(most_states, static_cast<index_t>(estimate));
        for_each(masks_.all & ~state.red, [&](node_t v) { expand(state, words, v); });
      }
    }
    return Status::error(StatusCode::internal, "an output cannot be reached");
  }

 private:
  bool is_needed(const Once& state, node_t v) const {
    return (masks_.children_of(v) & ~state.computed) != 0;
  }
  // Inputs that are outputs are there.
  mask_t still_to_write(const Once& state) const {
    return masks_.outputs & ~masks_.inputs & ~state.computed;
  }
  // Blue nodes that are needed and not red have to be read, outputs have to be written.
  index_t still_to_move(const Once& state) const {
    index_t words = std::popcount(still_to_write(state));
    for_each((masks_.inputs | state.blue) & ~state.red,
             [&](node_t v) { words += is_needed(state, v); });
    return words;
  }

  void expand(const Once& state, index_t words, node_t v) {
    const mask_t b = bit(v);
    if ((masks_.inputs & b) == 0 && (state.computed & b) == 0) {
      if ((masks_.parents_of(v) & ~state.red) != 0) return;
      Once next = state;
      next.computed |= b;
      next.red |= b;
      place(state, next, words + ((masks_.outputs & b) != 0), masks_.parents_of(v));
    } else if (((masks_.inputs | state.blue) & b) != 0 && is_needed(state, v)) {
      Once next = state;
      next.red |= b;
      place(state, next, words + 1, 0);
    }
  }
  // Without room a pebble goes; what is not in slow memory is written first.
  void place(const Once& before, const Once& next, index_t words, mask_t kept) {
    if (std::popcount(before.red) < M_) return reach(next, words);
    for_each(before.red & ~kept, [&](node_t out) {
      Once spilled = next;
      spilled.red &= ~bit(out);
      const bool in_memory = ((masks_.inputs | masks_.outputs | before.blue) & bit(out)) != 0;
      if ((masks_.inputs & bit(out)) == 0) spilled.blue |= bit(out);
      reach(spilled, words + !in_memory);
    });
  }
  void reach(Once state, index_t words) {
    for_each(state.red | state.blue, [&](node_t v) {
      if (is_needed(state, v)) return;
      state.red &= ~bit(v);
      state.blue &= ~bit(v);
    });
    const auto [known, is_new] = least_.emplace(state, words);
    if (!is_new && known->second <= words) return;
    known->second = words;
    const std::size_t estimate = static_cast<std::size_t>(words + still_to_move(state));
    if (queue_.size() <= estimate) queue_.resize(estimate + 1);
    queue_[estimate].push_back({state, words});
  }

  Masks masks_;
  int M_;
  std::unordered_map<Once, index_t, OnceHash> least_;
  std::vector<std::vector<std::pair<Once, index_t>>> queue_;  // by words in all, at least
};

}  // namespace

Status least_words_once(const Cdag& graph, index_t M, index_t most_states, Optimum* result) {
  const Status checked = check(graph, M, most_masked_nodes);
  return checked.is_ok()
             ? OnceSearch(graph, std::min<index_t>(M, most_masked_nodes)).run(most_states, result)
             : checked;
}

}  // namespace ioattn::pebble
