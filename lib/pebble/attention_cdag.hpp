#pragma once

#include <vector>

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "base/sdpa.hpp"
#include "base/status.hpp"
#include "pebble/cdag.hpp"

namespace ioattn::pebble {

// How the scores become weights, and where delta comes from.
enum class Statistics : std::uint8_t {
  computed,     // l = rowsum(exp(scores)), f = exp(scores) / l; delta = rowsum(f o q)
  log_sum,      // L = log l, f = exp(scores - L)
  deferred,     // O, or Z, is a sum of exp(scores) and divided by l at its end
  from_output,  // L given, f = exp(scores - L); delta = rowsum(O o dO)
  given,        // L and delta given
};

// Which product of A1, X and A2 comes first, and which of A1, p and A2.
enum class ScoreBracket : std::uint8_t { s, k, given };  // (A1 X) A2^T, A1 (A2 X^T)^T, S given
enum class GradientBracket : std::uint8_t { u, t };      // A1^T (p A2), (A1^T p) A2

enum class Tree : std::uint8_t { chain, binary };

// What the graph of a pass is: attention can be computed in many ways, and a schedule pebbles its
// own.
struct Recipe {
  LayerShape shape;
  Pass pass = Pass::backward;
  Form form = Form::h;
  Statistics statistics = Statistics::computed;
  ScoreBracket scores = ScoreBracket::s;
  GradientBracket gradient = GradientBracket::t;
  index_t t_rows = 0;         // T is summed over blocks of so many rows; 0: over all
  bool given_values = false;  // h, or G, is an input
  // Outputs of backward_keys: dA2, W (form g: dA3), dA2 + dA3 instead, U.
  bool d_keys = false, d_values = false, d_sum = false, d_queries = false;
  Tree tree = Tree::chain;
};

// The paper's backward pass: scores of S, form h, nothing given, bracket T.
Recipe paper_recipe(const LayerShape& shape);
// The graph that a schedule of the layer problem pebbles with these blocks, forward or backward.
Recipe recipe_of(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks);
// Of one head of SDPA, S = scale Q and h = V given. The backward pass makes the gradients of a set.
Recipe sdpa_forward_recipe(const LayerShape& head);
Recipe sdpa_backward_recipe(const LayerShape& head, const SdpaSet& set);
// Of a pass over the keys of a layer: S, LSE, delta, and h or G given.
Recipe key_pass_recipe(const LayerShape& shape, Form form, KeyPassKind kind);

// One entry of a matrix. Of a sum, `terms` are its terms in their order and, for chains, partial[t]
// is the sum of the terms 0 to t.
struct Entry {
  node_t root = no_node;
  std::vector<node_t> terms;
  std::vector<node_t> partial;
};

class AttentionCdag {
 public:
  static constexpr index_t most_nodes = index_t{1} << 22;

  // Fails for masks, empty sizes, and graphs of more than most_nodes nodes.
  static Status make(const Recipe& recipe, AttentionCdag* result);

  const Cdag& graph() const { return graph_; }
  const Recipe& recipe() const { return recipe_; }
  bool has(Value value) const { return matrix(value).cols > 0; }
  index_t rows(Value value) const { return matrix(value).rows; }
  // Null where the graph has no such entry.
  const Entry* find(Value value, index_t i, index_t j) const;
  const Entry& at(Value value, index_t i, index_t j) const { return *find(value, i, j); }

 private:
  struct Matrix {
    index_t rows = 0, cols = 0;
    std::vector<Entry> entries;
  };
  class Builder;
  void build();  // from recipe_

  const Matrix& matrix(Value value) const { return matrices_[static_cast<std::size_t>(value)]; }

  Recipe recipe_;
  Cdag graph_;
  std::vector<Matrix> matrices_ = std::vector<Matrix>(value_count);
};

// C = A B alone, for which optima are known: A (named A1) n x k, B (A2) k x m, C (S) n x m.
Cdag product_cdag(index_t n, index_t k, index_t m, Tree tree = Tree::chain);

}  // namespace ioattn::pebble
