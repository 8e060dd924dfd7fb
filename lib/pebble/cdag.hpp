#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace ioattn::pebble {

using node_t = std::int32_t;
constexpr node_t no_node = -1;

// The matrices whose entries are nodes, as in lib/theory/README.md; vectors have one column.
enum class Value : std::uint8_t {
  A1,
  A2,
  A3,
  X,
  Y,
  dO,
  O,
  LSE,
  S,           // A1 X
  K,           // A2 X^T
  G,           // dO Y^T
  h,           // A3 Y
  scores,      // S A2^T = A1 K'^T
  weight,      // exp(scores), not normalised
  row_sum,     // of the weights
  f,           // softmax
  q,           // dO h^T = G A3^T
  f_q,         // f o q
  delta,       // rowsum(f o q) = rowsum(O o dO)
  f_delta,     // f o delta
  difference,  // q - delta
  p,           // f o (q - delta)
  U,           // p A2
  T,           // A1^T p, of a block of rows: entry (block d + k, j)
  Z_sum,       // weight A3
  Z,           // f A3
  O_sum,       // weight h
  dX,
  dA2,  // p^T S
  dA3,  // f^T G
  dA,   // dA2 + dA3 in one accumulator
  W,    // f^T dO
};
constexpr int value_count = static_cast<int>(Value::W) + 1;
const char* name_of(Value value);

enum class Role : std::uint8_t { input, product, sum, function };

// An entry (i, j) of a matrix, or what it is made of: its `term`-th product, its sum up to that
// term.
struct Node {
  Value value;
  Role role;
  std::int32_t i = 0, j = 0, term = 0;
};
std::string to_text(const Node& node);

// The paper's levels: 1 for the products and sums of A1 X (or A2 X^T), 2 for those of the scores
// made of them, 0 for all other nodes.
int level_of(const Node& node);

// A directed acyclic graph of computations: a node can be computed when its parents are known,
// those without parents are inputs. Nodes are numbered parents first.
class Cdag {
 public:
  // Parents have to be there already.
  node_t add(const Node& node, std::span<const node_t> parents);
  void add_output(node_t node) { outputs_.push_back(node); }

  node_t size() const { return static_cast<node_t>(nodes_.size()); }
  const Node& node(node_t v) const { return nodes_[index(v)]; }
  std::span<const node_t> parents(node_t v) const {
    return {parents_.data() + first_parent_[index(v)],
            first_parent_[index(v) + 1] - first_parent_[index(v)]};
  }
  bool is_input(node_t v) const { return parents(v).empty(); }
  const std::vector<node_t>& outputs() const { return outputs_; }
  std::vector<std::vector<node_t>> children() const;

 private:
  static std::size_t index(node_t v) { return static_cast<std::size_t>(v); }

  std::vector<Node> nodes_;
  std::vector<std::size_t> first_parent_ = {0};
  std::vector<node_t> parents_;
  std::vector<node_t> outputs_;
};

}  // namespace ioattn::pebble
