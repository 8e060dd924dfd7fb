// The graphs compute what they say: every node is evaluated from its parents, and outputs are held
// against the oracle.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "pebble/attention_cdag.hpp"
#include "reference/cases.hpp"
#include "reference/oracle.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::pebble;
using ioattn_reference::Matrix;

using Values = std::map<Value, Matrix<double>>;

// Everything that may be an input or an output of a graph.
Values values_of(const LayerShape& shape) {
  const auto [n, m, d, e, tie, mask] = shape;
  const auto random = [](index_t rows, index_t cols, std::uint64_t seed) {
    return ioattn_reference::random_matrix(static_cast<std::size_t>(rows),
                                           static_cast<std::size_t>(cols), seed);
  };
  ioattn_reference::LayerInputs<double> in = {random(n, d, 1), random(m, d, 2), random(m, d, 3),
                                              random(d, d, 4), random(d, e, 5), random(n, e, 6)};
  if (tie == Tie::all) in.A1 = in.A2;
  if (tie != Tie::none) in.A3 = in.A2;
  const auto forward = ioattn_reference::forward(in);
  const auto backward = ioattn_reference::backward(in, forward);
  Values values = {{Value::A1, in.A1},         {Value::A2, in.A2},         {Value::A3, in.A3},
                   {Value::X, in.X},           {Value::Y, in.Y},           {Value::dO, in.dO},
                   {Value::S, forward.S},      {Value::h, forward.h},      {Value::O, forward.O},
                   {Value::LSE, forward.L},    {Value::delta, backward.v}, {Value::U, backward.U},
                   {Value::dA2, backward.dA2}, {Value::dA3, backward.dA3}, {Value::W, backward.W},
                   {Value::dX, backward.dX},   {Value::dA, backward.dA2}};
  values[Value::G] = ioattn_reference::multiply(in.dO, ioattn_reference::transpose(in.Y));
  for (std::size_t k = 0; k < backward.dA3.values.size(); ++k)
    values[Value::dA].values[k] += backward.dA3.values[k];
  return values;
}

double at(const Values& values, const Node& node) {
  return values.at(node.value)(static_cast<std::size_t>(node.i), static_cast<std::size_t>(node.j));
}

// Of a function of x, or of x and y; `first` is the value that x is of.
double applied(Value function, Value first, double x, double y) {
  switch (function) {
    case Value::weight: return std::exp(x);
    case Value::LSE: return std::log(x);
    case Value::f: return first == Value::weight ? x / y : std::exp(x - y);
    case Value::f_q:
    case Value::f_delta: return x * y;
    case Value::difference: return x - y;
    case Value::p: return first == Value::f_q ? x - y : x * y;
    case Value::Z:
    case Value::O: return x / y;
    default: return std::nan("");
  }
}

void expect_values(const Recipe& recipe) {
  AttentionCdag cdag;
  ASSERT_OK(AttentionCdag::make(recipe, &cdag));
  const Cdag& graph = cdag.graph();
  const Values values = values_of(recipe.shape);
  std::vector<double> result;
  for (node_t v = 0; v < graph.size(); ++v) {
    const Node& node = graph.node(v);
    const auto parents = graph.parents(v);
    const auto parent = [&](std::size_t i) {
      return parents.empty()
                 ? 0
                 : result[static_cast<std::size_t>(parents[std::min(i, parents.size() - 1)])];
    };
    switch (node.role) {
      case Role::input: result.push_back(at(values, node)); break;
      case Role::product: result.push_back(parent(0) * parent(1)); break;
      case Role::sum: result.push_back(parent(0) + parent(1)); break;
      case Role::function:
        result.push_back(
            applied(node.value, graph.node(parents.front()).value, parent(0), parent(1)));
    }
  }
  ASSERT_FALSE(graph.outputs().empty());
  for (const node_t v : graph.outputs()) {
    const double expected = at(values, graph.node(v));
    ASSERT_LE(std::fabs(result[static_cast<std::size_t>(v)] - expected),
              1e-11 * std::max(1.0, std::fabs(expected)))
        << to_text(graph.node(v));
  }
}

// Both trees, every tie, sizes of one among them.
template <class MakeRecipe>
void expect_values_of_shapes(const MakeRecipe& make) {
  for (const Tree tree : {Tree::chain, Tree::binary}) {
    for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
      for (const LayerShape& size : {LayerShape{3, 5, 4, 2}, LayerShape{6, 3, 2, 5},
                                     LayerShape{1, 4, 3, 1}, LayerShape{4, 1, 1, 3}}) {
        LayerShape shape = size;
        shape.tie = tie;
        if (tie == Tie::all) shape.m = shape.n;
        Recipe recipe = make(shape);
        recipe.tree = tree;
        SCOPED_TRACE(testing::Message() << name_of(tie) << " n=" << shape.n << " m=" << shape.m
                                        << " d=" << shape.d << " dv=" << shape.dv);
        expect_values(recipe);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(GraphValues, OfThePapersGraph) {
  for (const GradientBracket gradient : {GradientBracket::t, GradientBracket::u}) {
    expect_values_of_shapes([&](const LayerShape& shape) {
      Recipe recipe = paper_recipe(shape);
      recipe.gradient = gradient;
      return recipe;
    });
  }
}

TEST(GraphValues, OfEverySchedule) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (int i = 0; i < schedule_count; ++i) {
      for (const Form form : {Form::g, Form::h}) {
        SCOPED_TRACE(std::string(name_of(pass)) + " " + name_of(static_cast<Schedule>(i)));
        expect_values_of_shapes([&](const LayerShape& shape) {
          Blocks blocks;
          blocks.form = form;
          blocks.r = 2;
          return recipe_of(pass, static_cast<Schedule>(i), shape, blocks);
        });
      }
    }
  }
}

TEST(GraphValues, OfPassesOverTheKeysAndSdpa) {
  expect_values_of_shapes([](const LayerShape& shape) { return sdpa_forward_recipe(shape); });
  for (int which = 1; which < 8; ++which) {
    const SdpaSet set = {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
    expect_values_of_shapes(
        [&](const LayerShape& shape) { return sdpa_backward_recipe(shape, set); });
  }
  for (const Form form : {Form::g, Form::h}) {
    for (const KeyGradients wanted :
         {KeyGradients::keys, KeyGradients::values, KeyGradients::both, KeyGradients::sum}) {
      if (form == Form::h && wanted == KeyGradients::sum) continue;
      for (const bool queries : {false, true}) {
        expect_values_of_shapes([&](const LayerShape& shape) {
          return key_pass_recipe(shape, form, {wanted, queries});
        });
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
