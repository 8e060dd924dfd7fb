#pragma once

#include <string>
#include <vector>

#include "pebble/cdag.hpp"

namespace ioattn::pebble {

// The red-blue pebble game of Hong and Kung (1981). Red pebbles are words in fast memory, blue ones
// in slow memory; inputs start blue, outputs have to end blue.
enum class Rule : std::uint8_t {
  read,     // R1: a red pebble on a node with a blue one
  write,    // R2: a blue pebble on a node with a red one
  compute,  // R3: a red pebble on a node whose parents are all red
  remove,   // R4: a pebble is taken away, here a red one
};
const char* name_of(Rule rule);

struct Move {
  Rule rule;
  node_t node;
  bool operator==(const Move&) const = default;
};

// What a read does to the blue pebble and a write to the red one.
enum class Transfer : std::uint8_t {
  keep,     // Hong and Kung: both stay
  replace,  // as the paper words its game: the pebble changes its colour
};

struct Play {
  index_t reads = 0, writes = 0, computations = 0;
  index_t most_red = 0;
  std::string violation;  // the first broken rule, or "" if the pebbling is legal and complete

  index_t words() const { return reads + writes; }
};

// Plays every move and holds it to the rules, with at most M red pebbles. Stops at a violation.
Play play(const Cdag& graph, const std::vector<Move>& moves, index_t M,
          Transfer transfer = Transfer::keep);

// A pebbling for Transfer::replace with the same computations and at most M red pebbles, if `moves`
// is legal with M: what is read again is written once more, what is written and still needed is
// read once more.
std::vector<Move> with_replacement(const Cdag& graph, const std::vector<Move>& moves);

}  // namespace ioattn::pebble
