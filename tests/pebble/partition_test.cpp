// Partitions of Hong and Kung from the pebblings of schedules; least dominators against a search
// over all sets; circles as Hong and Kung mean them and as the paper words them.

#include "pebble/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pebble/pebbler.hpp"
#include "plan/blocks/blocking.hpp"
#include "schedules/layer_data.hpp"
#include "schedules/odd_tile.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::pebble;

TEST(Partition, OfEverySchedule) {
  const LayerShape shape = {6, 5, 3, 2};
  std::mt19937 engine(5);
  int large = 0;
  for (const Variant& v : variants()) {
    if (v.pass == Pass::backward_keys) continue;
    for (const index_t times : {1, 2}) {
      SCOPED_TRACE(std::string(name_of(v.pass)) + " " + to_text(v) + " " + std::to_string(times));
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, times * plan::least_fast_memory(v, shape),
                                      odd_tile<float>().tile, &blocks));
      AttentionCdag cdag;
      ASSERT_OK(AttentionCdag::make(recipe_of(v.pass, v.schedule, shape, blocks), &cdag));
      Pebbler pebbler(cdag);
      LayerData<float> data(shape, 0, engine);
      ASSERT_OK(run_pass(v.pass, v.schedule, shape, blocks, odd_tile<float>(), 1, &pebbler, &data));
      ASSERT_EQ(pebbler.violation(), "");
      const Play result = play(cdag.graph(), pebbler.moves(), cdag.graph().size());
      const index_t M = result.most_red;
      const std::vector<NodeSet> sets = partition_of(cdag.graph(), pebbler.moves(), M);
      const PartitionCheck check = check_partition(cdag.graph(), sets, 2 * M);
      EXPECT_EQ(check.violation, "");
      EXPECT_GT(check.most_dominator, 0);
      const index_t h = static_cast<index_t>(sets.size());
      EXPECT_EQ(h, ceil_div(result.words(), M));
      EXPECT_GE(result.words(), M * (h - 1));
      large += h > 20;
    }
  }
  EXPECT_GT(large, 5);
}

// Ten children of an input are computed and dropped, then each again where it is used: by the first
// time they would all be in one set, in which none has a child.
TEST(Partition, LeavesOutWhatIsComputedInVain) {
  Cdag graph;
  const node_t input = graph.add({Value::A1, Role::input}, {});
  constexpr int count = 10;
  constexpr index_t M = 3;
  std::vector<Move> moves = {{Rule::read, input}};
  std::vector<node_t> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(graph.add({Value::S, Role::function, i}, std::vector{input}));
    moves.insert(moves.end(), {{Rule::compute, children.back()}, {Rule::remove, children.back()}});
  }
  for (int i = 0; i < count; ++i) {
    const node_t child = children[std::size_t(i)];
    const node_t output = graph.add({Value::O, Role::function, i}, std::vector{child});
    graph.add_output(output);
    moves.insert(moves.end(), {{Rule::compute, child},
                               {Rule::compute, output},
                               {Rule::write, output},
                               {Rule::remove, output},
                               {Rule::remove, child}});
  }
  const Play result = play(graph, moves, M);
  ASSERT_EQ(result.violation, "");
  const std::vector<NodeSet> sets = partition_of(graph, moves, M);
  EXPECT_EQ(check_partition(graph, sets, 2 * M).violation, "");
  EXPECT_EQ(static_cast<index_t>(sets.size()), ceil_div(result.words(), M));
}

// Whether every path from an input to the set meets the dominator.
bool dominates(const Cdag& graph, const NodeSet& dominator, const NodeSet& set) {
  std::vector<bool> open(static_cast<std::size_t>(graph.size()));
  for (node_t v = 0; v < graph.size(); ++v) {
    const auto in = [&](const NodeSet& nodes) {
      return std::find(nodes.begin(), nodes.end(), v) != nodes.end();
    };
    const auto is_open = [&](node_t u) { return bool(open[static_cast<std::size_t>(u)]); };
    const auto parents = graph.parents(v);
    const bool reached = parents.empty() || std::any_of(parents.begin(), parents.end(), is_open);
    open[static_cast<std::size_t>(v)] = reached && !in(dominator);
    if (is_open(v) && in(set)) return false;
  }
  return true;
}

TEST(Partition, LeastDominatorsAreThoseOfASearch) {
  std::mt19937 engine(6);
  const auto uniform = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  int sizes[8] = {};
  for (int trial = 0; trial < 1000; ++trial) {
    Cdag graph;
    const int nodes = uniform(4, 12), inputs = uniform(1, 4);
    for (int v = 0; v < nodes; ++v) {
      NodeSet parents;
      for (int u = 0; v >= inputs && u < v; ++u)
        if (uniform(0, 3) == 0) parents.push_back(u);
      if (v >= inputs && parents.empty()) parents.push_back(uniform(0, v - 1));
      graph.add({Value::S, parents.empty() ? Role::input : Role::function, v}, parents);
    }
    NodeSet set;
    for (int v = 0; v < nodes; ++v)
      if (uniform(0, 1) == 0) set.push_back(v);
    index_t least = nodes;
    for (int bits = 0; bits < 1 << nodes; ++bits) {
      NodeSet dominator;
      for (int v = 0; v < nodes; ++v)
        if ((bits >> v & 1) != 0) dominator.push_back(v);
      if (index_t(dominator.size()) < least && dominates(graph, dominator, set))
        least = index_t(dominator.size());
    }
    ASSERT_EQ(least_dominator(graph, set), least) << "trial " << trial;
    ++sizes[std::min<index_t>(least, 7)];
  }
  for (const int size : {1, 2, 3}) EXPECT_GT(sizes[size], 20) << size;
}

// The first path found, u v w t, has to give w to the path from y and turn off at u.
TEST(Partition, PathsGiveWay) {
  Cdag graph;
  const auto add = [&](std::vector<node_t> parents) {
    return graph.add({Value::S, Role::function, graph.size()}, parents);
  };
  const node_t u = add({}), y = add({});
  const node_t v = add({u}), y2 = add({add({y})});
  const node_t w = add({v, y2});
  const node_t t = add({w});
  const node_t other = add({add({add({add({u})})})});
  EXPECT_EQ(least_dominator(graph, {t}), 1);
  EXPECT_EQ(least_dominator(graph, {t, other}), 2);
}

// a -> b -> c, with a and c in one set: a circle of two sets. A third set beside it hides it from
// the definition that asks for one circle through all sets.
TEST(Partition, SmallCirclesAreCircles) {
  Cdag graph;
  const node_t a = graph.add({Value::A1, Role::input}, {});
  const node_t other = graph.add({Value::A2, Role::input}, {});
  const node_t b = graph.add({Value::S, Role::function, 0}, std::vector{a});
  const node_t c = graph.add({Value::S, Role::function, 1}, std::vector{b});
  const std::vector<NodeSet> sets = {{a, c}, {b}, {other}};
  EXPECT_TRUE(has_cycle(graph, sets));
  EXPECT_FALSE(has_cycle_through_all(graph, sets));
  EXPECT_TRUE(has_cycle_through_all(graph, {{a, c, other}, {b}}));
  EXPECT_EQ(check_partition(graph, sets, 4).violation, "sets depend on each other in a circle");
  EXPECT_EQ(check_partition(graph, {{a, b, c}, {other}}, 4).violation, "");
}

TEST(Partition, EveryConditionIsHeld) {
  const Cdag graph = product_cdag(2, 1, 2);
  NodeSet all;
  for (node_t v = 0; v < graph.size(); ++v) all.push_back(v);
  EXPECT_EQ(check_partition(graph, {all}, 4).violation, "");
  EXPECT_EQ(check_partition(graph, {all}, 3).violation,
            "set 0: a least dominator of 4 nodes, more than S = 3");
  EXPECT_EQ(check_partition(graph, {{0, 1, 2, 3}, {4, 5, 6, 7}}, 4).violation, "");
  EXPECT_EQ(check_partition(graph, {{0, 1, 2, 3, 4}, {5, 6, 7}}, 3).violation,
            "set 0: a least dominator of 4 nodes, more than S = 3");
  const NodeSet rest(all.begin(), all.end() - 1);
  EXPECT_EQ(check_partition(graph, {rest}, 4).violation,
            to_text(graph.node(graph.size() - 1)) + " is in 0 sets");
  EXPECT_EQ(check_partition(graph, {all, {0}}, 4).violation,
            to_text(graph.node(0)) + " is in 2 sets");
  // One input that all others are made of: its dominator is one node, its minimum set is large.
  Cdag star;
  std::vector<node_t> nodes = {star.add({Value::A1, Role::input}, {})};
  for (int i = 0; i < 5; ++i)
    nodes.push_back(star.add({Value::S, Role::function, i}, std::vector{nodes[0]}));
  EXPECT_EQ(check_partition(star, {nodes}, 4).violation,
            "set 0: a minimum set of 5 nodes, more than S = 4");
}

// With parts that may depend on each other in a circle three would do.
TEST(Partition, LeastPartsHaveNoCircles) {
  Cdag graph;
  const auto add = [&](std::vector<node_t> parents) {
    const Role role = parents.empty() ? Role::input : Role::function;
    return graph.add({Value::S, role, graph.size()}, parents);
  };
  const node_t a = add({}), b = add({}), c = add({});
  const node_t of_b = add({b}), of_all = add({a, b, c});
  const node_t next = add({a, b, c, of_all});
  add({b, c, of_all});
  add({of_b, next});
  index_t parts = 0;
  ASSERT_OK(least_parts(graph, 2, 100000, &parts));
  EXPECT_EQ(parts, 4);
}

TEST(Partition, LeastPartsAreExact) {
  index_t parts = 0;
  ASSERT_OK(least_parts(product_cdag(2, 1, 2), 4, 100000, &parts));
  EXPECT_EQ(parts, 1);
  // Two inputs with their product, the others with theirs, the other two products alone.
  ASSERT_OK(least_parts(product_cdag(2, 1, 2), 2, 100000, &parts));
  EXPECT_EQ(parts, 3);
  ASSERT_OK(least_parts(product_cdag(2, 1, 2), 1, 100000, &parts));
  EXPECT_EQ(parts, 8);  // a node each
  EXPECT_EQ(least_parts(product_cdag(2, 1, 2), 0, 100000, &parts).code(),
            StatusCode::invalid_argument);
  EXPECT_EQ(least_parts(product_cdag(2, 2, 2), 4, 100, &parts).code(), StatusCode::memory_limit);
  EXPECT_EQ(least_parts(product_cdag(4, 4, 4), 4, 100, &parts).code(), StatusCode::unsupported);
}

}  // namespace
}  // namespace ioattn_test
