#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "pebble/game.hpp"

namespace ioattn::pebble {

using NodeSet = std::vector<node_t>;

// Hong and Kung's partition from a pebbling with M red pebbles: it is cut after every M reads and
// writes, and a node belongs to the segment in which it first becomes red, computations left out of
// which nothing is used or written. So there are h = ceil(Q / M) sets, and Q >= M (h - 1) >= M
// (P(2M) - 1).
std::vector<NodeSet> partition_of(const Cdag& graph, const std::vector<Move>& moves, index_t M);

// The four conditions of an S-partition (Hong and Kung 1981): every node is in one set; every set
// has a dominator of at most S nodes, through which every path from an input to it leads; at most S
// nodes of a set have no child in it; and no sets depend on each other in a circle.
struct PartitionCheck {
  std::string violation;                         // the first condition that fails, or ""
  index_t most_dominator = 0, most_minimum = 0;  // least dominators and minimum sets, at most
};
PartitionCheck check_partition(const Cdag& graph, const std::vector<NodeSet>& sets, index_t S);

// The size of a least dominator: by Menger's theorem a flow through nodes of capacity 1.
index_t least_dominator(const Cdag& graph, const NodeSet& set);
NodeSet minimum_set(const Cdag& graph, const NodeSet& set);

// Whether some sets depend on each other in a circle, as Hong and Kung mean it; and whether all of
// them do in one circle, as the paper words it, which lets smaller circles pass.
bool has_cycle(const Cdag& graph, const std::vector<NodeSet>& sets);
bool has_cycle_through_all(const Cdag& graph, const std::vector<NodeSet>& sets);

// P(S), the least number of sets of an S-partition, by search over all of them: their sets in order
// are steps from one set of nodes that has all its ancestors to the next. Graphs of at most 63
// nodes; fails with memory_limit where they have more than most_sets such sets.
Status least_parts(const Cdag& graph, index_t S, index_t most_sets, index_t* parts);

}  // namespace ioattn::pebble
