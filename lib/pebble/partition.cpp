#include "pebble/partition.hpp"

#include <algorithm>
#include <deque>

namespace ioattn::pebble {
namespace {

std::size_t at(node_t v) { return static_cast<std::size_t>(v); }

// Set of each node, or no_node.
std::vector<node_t> sets_of_nodes(const Cdag& graph, const std::vector<NodeSet>& sets) {
  std::vector<node_t> of(at(graph.size()), no_node);
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (const node_t v : sets[i]) of[at(v)] = static_cast<node_t>(i);
  return of;
}

// For each set those that have a child of one of its nodes.
std::vector<std::vector<bool>> dependences(const Cdag& graph, const std::vector<NodeSet>& sets) {
  const std::vector<node_t> of = sets_of_nodes(graph, sets);
  std::vector<std::vector<bool>> on(sets.size(), std::vector<bool>(sets.size()));
  for (node_t v = 0; v < graph.size(); ++v) {
    for (const node_t parent : graph.parents(v)) {
      if (of[at(v)] != no_node && of[at(parent)] != no_node && of[at(v)] != of[at(parent)])
        on[at(of[at(parent)])][at(of[at(v)])] = true;
    }
  }
  return on;
}

// Paths from inputs to a set that share no node, found one after the other. A node is an entrance
// and an exit; what flows through it uses it up.
class Paths {
 public:
  Paths(const Cdag& graph, const NodeSet& set)
      : graph_(graph),
        is_target_(at(graph.size())),
        next_(at(graph.size()), no_node),
        previous_(at(graph.size()), no_node),
        used_(at(graph.size())),
        children_(graph.children()) {
    for (const node_t v : set) is_target_[at(v)] = true;
  }

  index_t count() {
    index_t paths = 0;
    while (add()) ++paths;
    return paths;
  }

 private:
  // Halves of nodes that a search came to, with the one before.
  enum class Half : std::uint8_t { in, out };
  struct Step {
    node_t node;
    Half half;
  };
  std::size_t index(const Step& s) const { return 2 * at(s.node) + (s.half == Half::out ? 1 : 0); }

  bool add() {
    std::vector<Step> from(2 * at(graph_.size()), Step{no_node, Half::in});
    std::vector<bool> seen(from.size());
    std::deque<Step> queue;
    const auto visit = [&](const Step& step, const Step& before) {
      if (seen[index(step)]) return;
      seen[index(step)] = true;
      from[index(step)] = before;
      queue.push_back(step);
    };
    for (node_t v = 0; v < graph_.size(); ++v)
      if (graph_.is_input(v) && !(used_[at(v)] && previous_[at(v)] == no_node))
        visit({v, Half::in}, {no_node, Half::in});
    while (!queue.empty()) {
      const Step step = queue.front();
      queue.pop_front();
      const node_t v = step.node;
      if (step.half == Half::in) {
        if (!used_[at(v)]) {
          visit({v, Half::out}, step);
        } else if (previous_[at(v)] != no_node) {
          visit({previous_[at(v)], Half::out}, step);  // back along a path
        }
        continue;
      }
      if (is_target_[at(v)]) {
        take(step, from);
        return true;
      }
      if (used_[at(v)]) visit({v, Half::in}, step);
      for (const node_t child : children_[at(v)])
        if (next_[at(v)] != child) visit({child, Half::in}, step);
    }
    return false;
  }

  // Adds the path that was found, step by step from its end.
  void take(Step step, const std::vector<Step>& from) {
    std::vector<std::pair<node_t, node_t>> added, removed;
    std::vector<node_t> used, freed;
    const node_t end = step.node;
    while (true) {
      const Step before = from[index(step)];
      if (before.node == no_node) break;
      if (before.node == step.node) {
        (step.half == Half::out ? used : freed).push_back(step.node);
      } else if (before.half == Half::out) {
        added.push_back({before.node, step.node});
      } else {
        removed.push_back({step.node, before.node});
      }
      step = before;
    }
    for (const node_t v : freed) used_[at(v)] = false;
    for (const node_t v : used) used_[at(v)] = true;
    for (const auto& [u, v] : removed) next_[at(u)] = previous_[at(v)] = no_node;
    for (const auto& [u, v] : added) {
      next_[at(u)] = v;
      previous_[at(v)] = u;
    }
    next_[at(end)] = no_node;
  }

  const Cdag& graph_;
  std::vector<bool> is_target_;
  std::vector<node_t> next_, previous_;  // on the path through a node
  std::vector<bool> used_;
  std::vector<std::vector<node_t>> children_;
};

}  // namespace

namespace {

// Of each move, whether it computes what is neither used nor written before its pebble is gone.
std::vector<bool> computed_in_vain(const Cdag& graph, const std::vector<Move>& moves) {
  std::vector<bool> in_vain(moves.size()), is_needed(at(graph.size()));
  for (std::size_t i = moves.size(); i-- > 0;) {
    const auto [rule, v] = moves[i];
    switch (rule) {
      case Rule::write: is_needed[at(v)] = true; break;
      case Rule::read:
      case Rule::remove: is_needed[at(v)] = false; break;
      case Rule::compute:
        in_vain[i] = !is_needed[at(v)];
        if (in_vain[i]) break;
        is_needed[at(v)] = false;
        for (const node_t parent : graph.parents(v)) is_needed[at(parent)] = true;
        break;
    }
  }
  return in_vain;
}

}  // namespace

std::vector<NodeSet> partition_of(const Cdag& graph, const std::vector<Move>& moves, index_t M) {
  const std::vector<bool> in_vain = computed_in_vain(graph, moves);
  std::vector<NodeSet> sets(1);
  std::vector<bool> was_red(at(graph.size()));
  index_t words = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    const bool moves_word = move.rule == Rule::read || move.rule == Rule::write;
    if (moves_word && words == M) {
      sets.emplace_back();
      words = 0;
    }
    words += moves_word;
    const bool places_red = move.rule == Rule::read || move.rule == Rule::compute;
    if (!places_red || was_red[at(move.node)] || in_vain[i]) continue;
    was_red[at(move.node)] = true;
    sets.back().push_back(move.node);
  }
  return sets;
}

index_t least_dominator(const Cdag& graph, const NodeSet& set) { return Paths(graph, set).count(); }

NodeSet minimum_set(const Cdag& graph, const NodeSet& set) {
  std::vector<bool> has_child(at(graph.size()));
  for (const node_t v : set)
    for (const node_t parent : graph.parents(v)) has_child[at(parent)] = true;
  NodeSet minimum;
  for (const node_t v : set)
    if (!has_child[at(v)]) minimum.push_back(v);
  return minimum;
}

bool has_cycle(const Cdag& graph, const std::vector<NodeSet>& sets) {
  const std::vector<std::vector<bool>> on = dependences(graph, sets);
  std::vector<bool> gone(sets.size());
  for (std::size_t removed = 0; removed < sets.size(); ++removed) {
    std::size_t next = sets.size();
    for (std::size_t i = 0; i < sets.size() && next == sets.size(); ++i) {
      bool is_free = !gone[i];
      for (std::size_t j = 0; j < sets.size(); ++j) is_free = is_free && (gone[j] || !on[j][i]);
      if (is_free) next = i;
    }
    if (next == sets.size()) return true;
    gone[next] = true;
  }
  return false;
}

bool has_cycle_through_all(const Cdag& graph, const std::vector<NodeSet>& sets) {
  const std::vector<std::vector<bool>> on = dependences(graph, sets);
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order.size() < 2) return false;
  do {
    bool closes = true;
    for (std::size_t i = 0; i < order.size(); ++i)
      closes = closes && on[order[i]][order[(i + 1) % order.size()]];
    if (closes) return true;
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return false;
}

PartitionCheck check_partition(const Cdag& graph, const std::vector<NodeSet>& sets, index_t S) {
  PartitionCheck check;
  const auto fail = [&](const std::string& why) {
    if (check.violation.empty()) check.violation = why;
  };
  std::vector<int> times(at(graph.size()));
  for (const NodeSet& set : sets)
    for (const node_t v : set) ++times[at(v)];
  for (node_t v = 0; v < graph.size(); ++v)
    if (times[at(v)] != 1)
      fail(to_text(graph.node(v)) + " is in " + std::to_string(times[at(v)]) + " sets");
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const index_t dominator = least_dominator(graph, sets[i]);
    const index_t minimum = static_cast<index_t>(minimum_set(graph, sets[i]).size());
    const auto too_large = [&](const char* what, index_t size) {
      if (size > S)
        fail("set " + std::to_string(i) + ": " + what + " of " + std::to_string(size) +
             " nodes, more than S = " + std::to_string(S));
    };
    too_large("a least dominator", dominator);
    too_large("a minimum set", minimum);
    check.most_dominator = std::max(check.most_dominator, dominator);
    check.most_minimum = std::max(check.most_minimum, minimum);
  }
  if (has_cycle(graph, sets)) fail("sets depend on each other in a circle");
  return check;
}

}  // namespace ioattn::pebble
