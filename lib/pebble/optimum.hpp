#pragma once

#include "base/status.hpp"
#include "pebble/cdag.hpp"

namespace ioattn::pebble {

// The least reads + writes of any pebbling, found by search over all of them.
struct Optimum {
  index_t words = 0;
  index_t states = 0;  // that were looked at
};

// Recomputation allowed: 0-1 breadth-first search over (red, blue) of graphs of up to 32 nodes.
// 12 nodes take a moment, 17 a minute.
// Fails with fast_memory_too_small, naming the least M; unsupported, naming the most nodes; and
// memory_limit after most_states states, naming the words that were reached, a lower bound.
Status least_words(const Cdag& graph, index_t M, index_t most_states, Optimum* result);

// No node computed twice: A* search over (computed, red, blue) of graphs of up to 63 nodes; about
// 31 are within reach.
Status least_words_once(const Cdag& graph, index_t M, index_t most_states, Optimum* result);

}  // namespace ioattn::pebble
