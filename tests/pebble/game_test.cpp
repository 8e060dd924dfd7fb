// The rules of the game, one broken at a time, and the game in which pebbles change colour.

#include <gtest/gtest.h>

#include "pebble/game.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::pebble;

// c = a b, d = c a
Cdag small_graph() {
  Cdag graph;
  const node_t a = graph.add({Value::A1, Role::input}, {});
  const node_t b = graph.add({Value::A2, Role::input}, {});
  const node_t c = graph.add({Value::S, Role::product}, std::vector{a, b});
  graph.add_output(graph.add({Value::O, Role::function}, std::vector{c, a}));
  return graph;
}
constexpr node_t a = 0, b = 1, c = 2, d = 3;
const std::vector<Move> legal = {{Rule::read, a},   {Rule::read, b},    {Rule::compute, c},
                                 {Rule::remove, b}, {Rule::compute, d}, {Rule::write, d}};

std::string violation(const std::vector<Move>& moves, index_t M = 3) {
  return play(small_graph(), moves, M).violation;
}

TEST(Game, LegalPebblingIsCounted) {
  const Play result = play(small_graph(), legal, 3);
  EXPECT_EQ(result.violation, "");
  EXPECT_EQ(result.reads, 2);
  EXPECT_EQ(result.writes, 1);
  EXPECT_EQ(result.computations, 2);
  EXPECT_EQ(result.most_red, 3);
}

TEST(Game, EveryRuleIsHeld) {
  EXPECT_EQ(violation(legal, 2), "S[0,0] product 0: more than M red pebbles");
  EXPECT_EQ(violation({{Rule::read, c}}), "S[0,0] product 0: read without a blue pebble");
  EXPECT_EQ(violation({{Rule::write, a}}), "A1[0,0]: written without a red pebble");
  EXPECT_EQ(violation({{Rule::read, a}, {Rule::compute, c}}),
            "S[0,0] product 0: computed while a parent is not red");
  EXPECT_EQ(violation({{Rule::compute, a}}), "A1[0,0]: an input computed");
  EXPECT_EQ(violation({{Rule::remove, b}}), "A2[0,0]: removed without a red pebble");
  EXPECT_EQ(violation({{Rule::read, 4}}), "4: no such node");
  std::vector<Move> unfinished = legal;
  unfinished.pop_back();
  EXPECT_EQ(violation(unfinished), "O[0,0]: an output without a blue pebble at the end");
}

TEST(Game, ReplacedPebblesAreGone) {
  const Cdag graph = small_graph();
  const std::vector<Move> again = {{Rule::read, a}, {Rule::remove, a}, {Rule::read, a}};
  EXPECT_NE(play(graph, again, 3).violation, "A1[0,0]: read without a blue pebble");
  EXPECT_EQ(play(graph, again, 3, Transfer::replace).violation,
            "A1[0,0]: read without a blue pebble");
}

// a is read twice and c is spilled while it is still needed.
TEST(Game, ReplacementWritesWhatIsReadAgain) {
  const Cdag graph = small_graph();
  const std::vector<Move> moves = {{Rule::read, a},    {Rule::read, b},   {Rule::compute, c},
                                   {Rule::write, c},   {Rule::remove, a}, {Rule::remove, b},
                                   {Rule::remove, c},  {Rule::read, c},   {Rule::read, a},
                                   {Rule::compute, d}, {Rule::write, d}};
  EXPECT_EQ(play(graph, moves, 3).violation, "");
  EXPECT_EQ(play(graph, moves, 3).words(), 6);
  const Play replaced = play(graph, with_replacement(graph, moves), 3, Transfer::replace);
  EXPECT_EQ(replaced.violation, "");
  EXPECT_EQ(replaced.words(), 7);  // and a is written

  // c is written and never read.
  const std::vector<Move> idle = {{Rule::read, a},   {Rule::read, b},    {Rule::compute, c},
                                  {Rule::remove, b}, {Rule::compute, d}, {Rule::write, c},
                                  {Rule::remove, c}, {Rule::write, d}};
  EXPECT_EQ(play(graph, idle, 3).words(), 4);
  const Play needed = play(graph, with_replacement(graph, idle), 3, Transfer::replace);
  EXPECT_EQ(needed.violation, "");
  EXPECT_EQ(needed.words(), 3);
}

}  // namespace
}  // namespace ioattn_test
