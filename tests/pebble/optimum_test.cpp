// Least words of tiny graphs: known values, both searches against each other, lower bounds below
// them, and what the searches refuse.

#include "pebble/optimum.hpp"

#include <gtest/gtest.h>

#include <array>

#include "pebble/attention_cdag.hpp"
#include "pebble/partition.hpp"
#include "status_ok.hpp"
#include "theory/bounds.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::pebble;

constexpr index_t most_states = 4'000'000;

Cdag backward_graph(const LayerShape& shape) {
  Recipe recipe = paper_recipe(shape);
  recipe.statistics = Statistics::given;
  recipe.gradient = GradientBracket::u;
  AttentionCdag cdag;
  EXPECT_OK(AttentionCdag::make(recipe, &cdag));
  return cdag.graph();
}

// With M = 4, 5 and 6.
struct Known {
  const char* name;
  Cdag graph;
  index_t words[3];
};
std::vector<Known> known_optima() {
  return {{"1x2x1", product_cdag(1, 2, 1), {5, 5, 5}},
          {"2x1x2", product_cdag(2, 1, 2), {8, 8, 8}},
          {"2x2x1", product_cdag(2, 2, 1), {9, 8, 8}},
          {"1x3x2", product_cdag(1, 3, 2), {14, 11, 11}},
          {"3x1x3", product_cdag(3, 1, 3), {17, 15, 15}},
          {"2x2x2", product_cdag(2, 2, 2), {17, 14, 13}},
          {"backward 1,1,1", backward_graph({1, 1, 1, 1}), {11, 10, 9}},
          {"backward 1,2,1", backward_graph({1, 2, 1, 1}), {18, 15, 13}},
          {"backward 2,1,1", backward_graph({2, 1, 1, 1}), {20, 18, 16}}};
}

TEST(Optimum, KnownWords) {
  for (const Known& known : known_optima()) {
    for (index_t M = 4; M <= 6; ++M) {
      SCOPED_TRACE(std::string(known.name) + " M=" + std::to_string(M));
      Optimum once;
      const Status found = least_words_once(known.graph, M, most_states, &once);
      ASSERT_OK(found);
      EXPECT_EQ(once.words, known.words[M - 4]);
    }
  }
  Optimum wide;
  ASSERT_OK(least_words_once(product_cdag(2, 2, 2), 8, most_states, &wide));
  EXPECT_EQ(wide.words, 12);
}

TEST(Optimum, RecomputationDoesNotHelpHere) {
  for (const Known& known : known_optima()) {
    if (known.graph.size() > 12) continue;
    for (index_t M = 4; M <= 6; ++M) {
      SCOPED_TRACE(std::string(known.name) + " M=" + std::to_string(M));
      Optimum again;
      const Status found = least_words(known.graph, M, most_states, &again);
      ASSERT_OK(found);
      EXPECT_EQ(again.words, known.words[M - 4]);
    }
  }
}

// A value between two uses far apart: spilling it costs two words, computing it again none.
TEST(Optimum, RecomputationHelpsWhereSpillingCosts) {
  Cdag graph;
  std::array<node_t, 3> in;
  for (int i = 0; i < 3; ++i) {
    in[static_cast<std::size_t>(i)] = graph.add({Value::A1, Role::input, 0, i}, {});
  }
  const node_t v = graph.add({Value::S, Role::product}, std::vector{in[0], in[1]});
  const node_t first = graph.add({Value::O, Role::function, 0, 0}, std::vector{v});
  const node_t wide =
      graph.add({Value::O, Role::function, 0, 1}, std::vector{first, in[0], in[1], in[2]});
  graph.add_output(graph.add({Value::O, Role::function, 0, 2}, std::vector{v, wide}));
  Optimum again, once;
  ASSERT_OK(least_words(graph, 5, most_states, &again));
  ASSERT_OK(least_words_once(graph, 5, most_states, &once));
  EXPECT_EQ(again.words, 4);
  EXPECT_EQ(once.words, 6);
}

TEST(Optimum, AnInputMayBeAnOutput) {
  Cdag graph;
  const node_t a = graph.add({Value::A1, Role::input, 0, 0}, {});
  const node_t b = graph.add({Value::A1, Role::input, 0, 1}, {});
  graph.add_output(graph.add({Value::S, Role::product}, std::vector{a, b}));
  graph.add_output(a);
  for (const auto search : {least_words, least_words_once}) {
    Optimum least;
    const Status found = search(graph, 3, most_states, &least);
    ASSERT_OK(found);
    EXPECT_EQ(least.words, 3);
  }
}

TEST(Optimum, BoundsOfTheGameAreBelow) {
  for (const LayerShape& shape :
       {LayerShape{1, 1, 1, 1}, LayerShape{1, 2, 1, 1}, LayerShape{2, 1, 1, 1}}) {
    for (index_t M = 4; M <= 8; ++M) {
      Optimum least;
      ASSERT_OK(least_words_once(backward_graph(shape), M, most_states, &least));
      const theory::Bound bound =
          theory::lower_bound(Pass::backward, theory::AlgorithmClass::P, shape, M);
      EXPECT_LE(bound.words, static_cast<double>(least.words)) << bound.name << " M=" << M;
    }
  }
}

// The paper's graph, with room for all of it: every word once, which is the bound.
TEST(Optimum, CompulsoryWordsAreEnoughWhereEverythingFits) {
  for (const LayerShape& shape :
       {LayerShape{1, 1, 1, 1}, LayerShape{1, 2, 1, 1}, LayerShape{2, 1, 1, 1}}) {
    constexpr index_t M = 64;
    AttentionCdag cdag;
    ASSERT_OK(AttentionCdag::make(paper_recipe(shape), &cdag));
    Optimum least;
    const Status found = least_words_once(cdag.graph(), M, most_states, &least);
    ASSERT_OK(found);
    const theory::Bound bound =
        theory::lower_bound(Pass::backward, theory::AlgorithmClass::P, shape, M);
    EXPECT_EQ(bound.words, static_cast<double>(least.words)) << shape.n << " " << shape.m;
  }
}

// Q >= M (P(2M) - 1), of which 9 products in one part of at most 8 minimum nodes make something.
TEST(Optimum, PartitionsAreBelow) {
  const Known product = {"3x1x3", product_cdag(3, 1, 3), {17, 15, 15}};
  for (index_t M = 3; M <= 6; ++M) {
    index_t parts = 0;
    Optimum least;
    const Status found = least_parts(product.graph, 2 * M, 2'000'000, &parts);
    ASSERT_OK(found);
    ASSERT_OK(least_words_once(product.graph, M, most_states, &least));
    EXPECT_EQ(parts, M <= 4 ? 2 : 1) << M;
    EXPECT_LE(M * (parts - 1), least.words);
  }
}

TEST(Optimum, RefusalsNameTheLimit) {
  Optimum result;
  const Cdag product = product_cdag(2, 2, 2);
  const Status small = least_words(product, 2, most_states, &result);
  EXPECT_EQ(small.code(), StatusCode::fast_memory_too_small);
  EXPECT_NE(std::string(small.message()).find("the least is 3"), std::string::npos);
  EXPECT_EQ(least_words(product_cdag(3, 3, 3), 4, most_states, &result).code(),
            StatusCode::unsupported);
  EXPECT_EQ(least_words_once(product_cdag(4, 3, 4), 4, most_states, &result).code(),
            StatusCode::unsupported);
  const Status many = least_words_once(product, 4, 100, &result);
  EXPECT_EQ(many.code(), StatusCode::memory_limit);
  EXPECT_NE(std::string(many.message()).find("more than 100 states"), std::string::npos);
}

}  // namespace
}  // namespace ioattn_test
