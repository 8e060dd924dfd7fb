#pragma once

#include <bit>
#include <vector>

#include "pebble/cdag.hpp"

// Sets of nodes of a small graph as bits of a word.
namespace ioattn::pebble {

using mask_t = std::uint64_t;
constexpr node_t most_masked_nodes = 63;

constexpr mask_t bit(node_t v) { return mask_t{1} << v; }
constexpr node_t first_of(mask_t set) { return static_cast<node_t>(std::countr_zero(set)); }

template <class Visit>
void for_each(mask_t set, const Visit& visit) {
  for (; set != 0; set &= set - 1) visit(first_of(set));
}

struct Masks {
  std::vector<mask_t> parents, children;
  mask_t inputs = 0, outputs = 0, all = 0;

  explicit Masks(const Cdag& graph)
      : parents(static_cast<std::size_t>(graph.size())),
        children(static_cast<std::size_t>(graph.size())) {
    for (node_t v = 0; v < graph.size(); ++v) {
      all |= bit(v);
      if (graph.is_input(v)) inputs |= bit(v);
      for (const node_t parent : graph.parents(v)) {
        parents[static_cast<std::size_t>(v)] |= bit(parent);
        children[static_cast<std::size_t>(parent)] |= bit(v);
      }
    }
    for (const node_t v : graph.outputs()) outputs |= bit(v);
  }
  mask_t parents_of(node_t v) const { return parents[static_cast<std::size_t>(v)]; }
  mask_t children_of(node_t v) const { return children[static_cast<std::size_t>(v)]; }
};

}  // namespace ioattn::pebble
