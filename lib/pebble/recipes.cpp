#include <algorithm>

#include "pebble/attention_cdag.hpp"

namespace ioattn::pebble {

Recipe paper_recipe(const LayerShape& shape) {
  Recipe recipe;
  recipe.shape = shape;
  return recipe;
}

namespace {

Statistics forward_statistics(Schedule schedule) {
  const bool online = schedule == Schedule::row_stream || schedule == Schedule::tile_fused ||
                      schedule == Schedule::paper_large;
  return online ? Statistics::deferred : Statistics::log_sum;
}

}  // namespace

Recipe recipe_of(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  Recipe recipe = paper_recipe(shape);
  recipe.pass = pass;
  recipe.form = has_form(schedule, Form::h) ? blocks.form : Form::h;  // the others make h
  if (pass == Pass::forward) {
    recipe.statistics = forward_statistics(schedule);
    return recipe;
  }
  switch (schedule) {
    case Schedule::naive:
    case Schedule::paper_small: return recipe;
    case Schedule::resident: recipe.gradient = GradientBracket::u; return recipe;
    case Schedule::weight_resident: recipe.scores = ScoreBracket::k; [[fallthrough]];
    case Schedule::paper_large: recipe.t_rows = std::min(blocks.r, shape.n); break;
    default: recipe.gradient = GradientBracket::u; break;
  }
  recipe.statistics = Statistics::from_output;
  return recipe;
}

namespace {

Recipe with_given_products(const LayerShape& shape, Pass pass, Statistics statistics) {
  Recipe recipe = paper_recipe(shape);
  recipe.pass = pass;
  recipe.statistics = statistics;
  recipe.scores = ScoreBracket::given;
  recipe.gradient = GradientBracket::u;
  recipe.given_values = true;
  return recipe;
}

}  // namespace

Recipe sdpa_forward_recipe(const LayerShape& head) {
  return with_given_products(head, Pass::forward, Statistics::deferred);
}

Recipe sdpa_backward_recipe(const LayerShape& head, const SdpaSet& set) {
  Recipe recipe = with_given_products(head, Pass::backward_keys, Statistics::from_output);
  recipe.d_queries = set.dQ;
  recipe.d_keys = set.dK;
  recipe.d_values = set.dV;
  return recipe;
}

Recipe key_pass_recipe(const LayerShape& shape, Form form, KeyPassKind kind) {
  Recipe recipe = with_given_products(shape, Pass::backward_keys, Statistics::given);
  recipe.form = form;
  recipe.d_sum = kind.is_sum();
  recipe.d_keys = kind.of_keys() && !kind.is_sum();
  recipe.d_values = kind.of_values() && !kind.is_sum();
  recipe.d_queries = kind.queries;
  return recipe;
}

}  // namespace ioattn::pebble
