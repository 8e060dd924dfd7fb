#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plan/plan.hpp"

// Texts of several passes and products, separated by " ; ".
namespace ioattn::plan {

void add_item(const std::string& item, std::string* text);

// Hands every item to `parse` until one is not understood; then the text has to be that which
// `canonical` gives. On failure returns false and says that it is no plan of `what`.
bool parse_items(std::string_view text, const char* what,
                 const std::function<bool(std::string_view item)>& parse,
                 const std::function<std::string()>& canonical, std::string* error);

// An item that is a pass. What the passes of a plan have in common is taken over into the plan.
inline bool is_pass(std::string_view item) { return item.find(':') != std::string_view::npos; }
template <class PlanOfPasses>
bool parse_pass(std::string_view item, Plan* pass, PlanOfPasses* plan) {
  std::string error;
  if (!parse_plan(item, pass, &error)) return false;
  plan->level = pass->level;
  plan->tile = pass->tile;
  return true;
}
template <class PlanOfPasses>
std::string pass_text(const PlanOfPasses& plan, Schedule schedule, const Blocks& blocks) {
  return to_text(Plan{plan.level, schedule, blocks, plan.tile});
}

}  // namespace ioattn::plan
