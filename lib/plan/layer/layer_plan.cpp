#include "plan/layer/layer_plan.hpp"

#include "base/parse.hpp"
#include "plan/plan_items.hpp"

namespace ioattn::plan {
namespace {

// One item of the text: a plan of a pass, or name=value. `alone`: the only pass makes dX.
bool parse_item(std::string_view item, bool alone, LayerPlan* plan) {
  if (is_pass(item)) {
    Plan pass;
    if (!parse_pass(item, &pass, plan)) return false;
    if (pass.schedule == Schedule::col_stream ||
        (pass.schedule == Schedule::tile_fused && !alone)) {
      plan->blocks.keys = pass.blocks;
      plan->blocks.by_keys = pass.schedule;
    } else {
      plan->blocks.schedule = pass.schedule;
      plan->blocks.rows = pass.blocks;
    }
    return true;
  }
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
  if (name == "dA") {
    return parse_number(value, &plan->blocks.sum) && plan->blocks.sum > 0;
  }
  for (const GradientProduct& product : gradient_products) {
    if (name == product.name) return parse_product(value, &(plan->blocks.*product.blocks));
  }
  return false;
}

}  // namespace

std::string to_text(const LayerPlan& plan, const GradientSet& set, Tie tie) {
  const LayerBlocks& blocks = plan.blocks;
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  std::string text;
  const auto add = [&](bool runs, const std::string& item) {
    if (runs) add_item(item, &text);
  };
  add(!steps.alone || steps.dx, pass_text(plan, blocks.schedule, blocks.rows));
  add(has_key_pass(steps, blocks), pass_text(plan, blocks.by_keys, blocks.keys));
  for (const GradientProduct& product : gradient_products)
    add(steps.*product.runs, product.name + ("=" + to_text(blocks.*product.blocks)));
  add(steps.parts, "dA=" + std::to_string(blocks.sum));
  return text;
}

bool parse_layer_plan(std::string_view text, const GradientSet& set, Tie tie, LayerPlan* plan,
                      std::string* error) {
  LayerPlan parsed;
  const bool alone = set.is_dx_alone();
  const bool understood = parse_items(
      text, "these gradients",
      [&](std::string_view item) { return parse_item(item, alone, &parsed); },
      [&] { return to_text(parsed, set, tie); }, error);
  if (!understood) return false;
  *plan = parsed;
  return true;
}

}  // namespace ioattn::plan
