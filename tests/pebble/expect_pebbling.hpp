#pragma once

#include <gtest/gtest.h>

#include "pebble/pebbler.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn_test {

// The moves are legal with three red pebbles more than resident words, and cost what the formula
// says.
inline void expect_pebbling(const ioattn::pebble::AttentionCdag& cdag,
                            const ioattn::pebble::Pebbler& pebbler, const ioattn::IoCost& cost) {
  namespace pebble = ioattn::pebble;
  ASSERT_EQ(pebbler.violation(), "");
  const ioattn::index_t M = cost.footprint + pebble::Pebbler::most_extra_red;
  const pebble::Play play = pebble::play(cdag.graph(), pebbler.moves(), M);
  ASSERT_EQ(play.violation, "");
  ASSERT_EQ(play.reads, cost.reads);
  ASSERT_EQ(play.writes, cost.writes);

  const std::vector<pebble::Move> moves = pebble::with_replacement(cdag.graph(), pebbler.moves());
  const pebble::Play replaced = pebble::play(cdag.graph(), moves, M, pebble::Transfer::replace);
  ASSERT_EQ(replaced.violation, "");
  ASSERT_EQ(replaced.computations, play.computations);
  ASSERT_LE(replaced.words(), 2 * play.words());
}

// The nodes that were computed more than once.
inline ioattn::index_t recomputed(const ioattn::pebble::Cdag& graph,
                                  const std::vector<ioattn::pebble::Move>& moves,
                                  ioattn::pebble::Value value) {
  std::vector<int> times(static_cast<std::size_t>(graph.size()));
  for (const ioattn::pebble::Move& move : moves) {
    if (move.rule == ioattn::pebble::Rule::compute) ++times[static_cast<std::size_t>(move.node)];
  }
  ioattn::index_t count = 0;
  for (ioattn::pebble::node_t v = 0; v < graph.size(); ++v)
    count += graph.node(v).value == value && times[static_cast<std::size_t>(v)] > 1;
  return count;
}

}  // namespace ioattn_test
