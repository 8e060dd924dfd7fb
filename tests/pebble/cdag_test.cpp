// Graphs of attention: known node counts, levels, outputs, trees, and what is refused.

#include <gtest/gtest.h>

#include "pebble/attention_cdag.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::pebble;

AttentionCdag graph_of(const Recipe& recipe) {
  AttentionCdag cdag;
  const Status made = AttentionCdag::make(recipe, &cdag);
  EXPECT_OK(made);
  return cdag;
}

Recipe with_u(const LayerShape& shape) {
  Recipe recipe = paper_recipe(shape);
  recipe.statistics = Statistics::given;
  recipe.gradient = GradientBracket::u;
  return recipe;
}

LayerShape square(index_t n) { return {n, n, n, n}; }

TEST(Cdag, NodeCountsAreKnown) {
  for (const Tree tree : {Tree::chain, Tree::binary}) {
    const auto count = [&](Recipe recipe) {
      recipe.tree = tree;
      return graph_of(recipe).graph().size();
    };
    EXPECT_EQ(count(paper_recipe(square(1))), 17);
    EXPECT_EQ(count(paper_recipe(square(2))), 120);
    EXPECT_EQ(count(paper_recipe(square(3))), 381);
    EXPECT_EQ(count(paper_recipe(square(4))), 872);
    EXPECT_EQ(count(paper_recipe({4, 4, 2, 2})), 372);
    EXPECT_EQ(count(with_u(square(2))), 112);
    EXPECT_EQ(count(with_u(square(3))), 357);
    EXPECT_EQ(count(with_u(square(4))), 824);
  }
}

// Counted for n, m, d and e apart: the nodes of the paper's graph, matrix by matrix.
TEST(Cdag, NodeCountsAreTheSumOverTheMatrices) {
  const index_t n = 3, m = 5, d = 2, e = 4;
  const index_t products = n * d * (2 * d - 1) + n * m * (2 * d - 1) + m * e * (2 * d - 1) +
                           n * m * (2 * e - 1) + d * m * (2 * n - 1) + d * d * (2 * m - 1);
  const index_t others = n * m + n * (m - 1) + n * m + n * m + n * (m - 1) + 2 * n * m;
  const index_t inputs = n * d + 2 * m * d + d * d + d * e + n * e;
  EXPECT_EQ(graph_of(paper_recipe({n, m, d, e})).graph().size(), inputs + products + others);
}

TEST(Cdag, LevelsOfThePaper) {
  const index_t n = 3, m = 4, d = 5;
  const AttentionCdag cdag = graph_of(paper_recipe({n, m, d, d + 2}));
  index_t nodes[3] = {};
  for (node_t v = 0; v < cdag.graph().size(); ++v) ++nodes[level_of(cdag.graph().node(v))];
  EXPECT_EQ(nodes[1], n * d * (2 * d - 1));
  EXPECT_EQ(nodes[2], n * m * (2 * d - 1));
  EXPECT_EQ(to_text(cdag.graph().node(cdag.at(Value::S, 1, 2).terms[3])), "S[1,2] product 3");
  EXPECT_EQ(to_text(cdag.graph().node(cdag.at(Value::scores, 2, 3).root)), "scores[2,3] sum to 4");
  EXPECT_EQ(to_text(cdag.graph().node(cdag.at(Value::dO, 0, 4).root)), "dO[0,4]");
}

TEST(Cdag, ParentsComeFirstAndOutputsAreTheGradient) {
  const AttentionCdag cdag = graph_of(paper_recipe({3, 4, 2, 3}));
  const auto children = cdag.graph().children();
  index_t without_use = 0;
  for (node_t v = 0; v < cdag.graph().size(); ++v) {
    for (const node_t parent : cdag.graph().parents(v)) ASSERT_LT(parent, v);
    without_use += children[static_cast<std::size_t>(v)].empty();
  }
  ASSERT_EQ(cdag.graph().outputs().size(), 4u);
  EXPECT_EQ(without_use, 4);
  for (const node_t v : cdag.graph().outputs()) EXPECT_EQ(cdag.graph().node(v).value, Value::dX);
}

TEST(Cdag, TiedMatricesAreTheSameNodes) {
  Recipe recipe = paper_recipe({3, 3, 2, 2, Tie::all});
  const AttentionCdag self = graph_of(recipe);
  EXPECT_EQ(self.at(Value::A1, 1, 1).root, self.at(Value::A3, 1, 1).root);
  recipe.shape.tie = Tie::kv;
  const AttentionCdag cross = graph_of(recipe);
  EXPECT_NE(cross.at(Value::A1, 1, 1).root, cross.at(Value::A2, 1, 1).root);
  EXPECT_EQ(cross.graph().size(), self.graph().size() + 3 * 2);
}

TEST(Cdag, BlocksOfRowsHaveSumsOfTheirOwn) {
  Recipe recipe = paper_recipe({5, 2, 2, 2});
  const node_t whole = graph_of(recipe).graph().size();
  recipe.t_rows = 2;
  const AttentionCdag blocks = graph_of(recipe);
  EXPECT_EQ(blocks.rows(Value::T), 3 * 2);
  EXPECT_EQ(blocks.at(Value::T, 4, 0).terms.size(), 1u);  // the last row alone
  EXPECT_EQ(blocks.at(Value::dX, 0, 0).terms.size(), 6u);
  // Two sums fewer per entry of T, two products and two sums more per block and term of dX.
  EXPECT_EQ(blocks.graph().size(), whole - 2 * (2 * 2) + 2 * (2 * 2 * 4));
}

TEST(Cdag, RefusalsNameTheLimit) {
  AttentionCdag cdag;
  EXPECT_EQ(AttentionCdag::make(paper_recipe({0, 1, 1, 1}), &cdag).code(),
            StatusCode::invalid_argument);
  EXPECT_EQ(AttentionCdag::make(paper_recipe({2, 3, 1, 1, Tie::all}), &cdag).code(),
            StatusCode::invalid_argument);
  Recipe masked = paper_recipe(square(3));
  masked.shape.mask = causal_top_left();
  EXPECT_EQ(AttentionCdag::make(masked, &cdag).code(), StatusCode::unsupported);
  for (const index_t n : {index_t(2000), index_t(1) << 31, index_t(1) << 62}) {
    const Status large = AttentionCdag::make(paper_recipe({n, n, 64, 64}), &cdag);
    EXPECT_EQ(large.code(), StatusCode::size_overflow);
    EXPECT_NE(std::string(large.message()).find("4194304"), std::string::npos) << large.message();
  }
}

}  // namespace
}  // namespace ioattn_test
