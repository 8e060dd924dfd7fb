#include "plan/gradient_plan.hpp"

#include <charconv>

namespace ioattn::plan {
namespace {

struct ProductItem {
  const char* name;
  ProductBlocks GradientBlocks::*product;
};
constexpr ProductItem product_items[] = {{"dA3", &GradientBlocks::da3},
                                         {"dY", &GradientBlocks::dy},
                                         {"dA1", &GradientBlocks::da1},
                                         {"dW_Q", &GradientBlocks::dw},
                                         {"dW_K", &GradientBlocks::dw}};

// One item of the text: a plan of a pass, or name=value.
bool parse_item(std::string_view item, GradientPlan* plan) {
  if (item.find(':') != std::string_view::npos) {
    Plan pass;
    std::string error;
    if (!parse_plan(item, &pass, &error)) return false;
    if (pass.schedule == Schedule::col_stream) {
      plan->blocks.keys = pass.blocks;
    } else {
      plan->blocks.schedule = pass.schedule;
      plan->blocks.rows = pass.blocks;
    }
    plan->level = pass.level;
    plan->isa = pass.isa;
    plan->tile_rows = pass.tile_rows;
    plan->tile_cols = pass.tile_cols;
    return true;
  }
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
  if (name == "dA") {
    const char* end = value.data() + value.size();
    const auto result = std::from_chars(value.data(), end, plan->blocks.sum);
    return result.ec == std::errc() && result.ptr == end && plan->blocks.sum > 0;
  }
  for (const ProductItem& known : product_items) {
    if (name == known.name) return parse_product(value, &(plan->blocks.*known.product));
  }
  return false;
}

}  // namespace

std::string to_text(const GradientPlan& plan, const GradientSet& set, Tie tie) {
  const GradientBlocks& blocks = plan.blocks;
  const GradientSteps steps = steps_of(set, tie, blocks.rows.form);
  std::string text;
  const auto add = [&](bool runs, const std::string& item) {
    if (runs) text += (text.empty() ? "" : " ; ") + item;
  };
  const auto pass = [&](Schedule schedule, const Blocks& of) {
    return to_text(Plan{plan.level, schedule, of, plan.isa, plan.tile_rows, plan.tile_cols});
  };
  add(!steps.alone || steps.dx, pass(blocks.schedule, blocks.rows));
  add(steps.keys, pass(Schedule::col_stream, blocks.keys));
  add(steps.da3, "dA3=" + to_text(blocks.da3));
  add(steps.dy, "dY=" + to_text(blocks.dy));
  add(steps.da1, "dA1=" + to_text(blocks.da1));
  add(steps.dw_q, "dW_Q=" + to_text(blocks.dw));
  add(steps.dw_k, "dW_K=" + to_text(blocks.dw));
  add(steps.parts, "dA=" + std::to_string(blocks.sum));
  return text;
}

bool parse_gradient_plan(std::string_view text, const GradientSet& set, Tie tie, GradientPlan* plan,
                         std::string* error) {
  constexpr std::string_view separator = " ; ";
  GradientPlan parsed;
  std::string_view rest = text;
  bool understood = true;
  while (understood) {
    const std::size_t end = rest.find(separator);
    understood = parse_item(rest.substr(0, end), &parsed);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + separator.size());
  }
  if (!understood) {
    *error = "not a plan of gradients: " + std::string(text);
    return false;
  }
  // One plan, one text; phases that the set does not take, or lacks, show here.
  const std::string canonical = to_text(parsed, set, tie);
  if (canonical != text) {
    *error = "not a plan of these gradients: " + std::string(text) + " (did you mean " + canonical +
             "?)";
    return false;
  }
  *plan = parsed;
  return true;
}

}  // namespace ioattn::plan
