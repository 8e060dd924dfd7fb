#include "plan/plan.hpp"

#include "base/parse.hpp"

namespace ioattn::plan {
namespace {

// Consumes `text` up to and including the separator.
bool take_until(std::string_view* text, std::string_view separator, std::string_view* token) {
  const std::size_t at = text->find(separator);
  if (at == std::string_view::npos) return false;
  *token = text->substr(0, at);
  text->remove_prefix(at + separator.size());
  return true;
}

template <class Integer>
bool parse_positive(std::string_view digits, Integer* value) {
  return parse_number(digits, value) && *value > 0;
}

// Behind "stored", in the order of the text.
struct Flag {
  std::string_view name;
  bool Blocks::*is_set;
};
constexpr Flag flags[] = {{"literal", &Blocks::literal},
                          {"one_pass", &Blocks::one_pass},
                          {"packed", &Blocks::packed},
                          {"parked", &Blocks::parked}};

bool parse_block(std::string_view item, Blocks* blocks) {
  if (item == "stored") {
    blocks->products = Products::stored;
    return true;
  }
  for (const Flag& flag : flags) {
    if (item != flag.name) continue;
    blocks->*flag.is_set = true;
    return true;
  }
  std::string_view name;
  if (!take_until(&item, "=", &name)) return false;
  if (name == "form") return parse_name(item, {Form::g, Form::h}, &blocks->form);
  for (const ProductField& field : product_fields()) {
    if (name == field.name) return parse_product(item, &(blocks->*field.product));
  }
  for (const SizeField& field : size_fields()) {
    if (name == field.name) return parse_positive(item, &(blocks->*field.size));
  }
  return false;
}

bool parse(std::string_view text, Plan* plan) {
  std::string_view level, schedule, blocks, isa, rows;
  if (!take_until(&text, ":", &level) || !take_until(&text, "(", &schedule) ||
      !take_until(&text, ") > reg:", &blocks) || !take_until(&text, "(", &isa) ||
      !take_until(&text, "x", &rows) || text.empty() || text.back() != ')') {
    return false;
  }
  text.remove_suffix(1);
  plan->level = std::string(level);
  if (level != "L1" && level != "L2" && level != "L3" && level != "M") return false;
  if (!parse_schedule(schedule, &plan->schedule)) return false;
  while (!blocks.empty()) {
    const std::size_t comma = blocks.find(',');
    if (!parse_block(blocks.substr(0, comma), &plan->blocks)) return false;
    blocks = comma == std::string_view::npos ? std::string_view() : blocks.substr(comma + 1);
  }
  return parse_isa(isa, &plan->tile.isa) && parse_positive(rows, &plan->tile.rows) &&
         parse_positive(text, &plan->tile.cols);
}

}  // namespace

bool parse_product(std::string_view text, ProductBlocks* product) {
  std::string_view rows, cols;
  product->keep_a = text.ends_with('a');
  if (product->keep_a) text.remove_suffix(1);
  return take_until(&text, "x", &rows) && take_until(&text, "x", &cols) &&
         parse_positive(rows, &product->rows) && parse_positive(cols, &product->cols) &&
         parse_positive(text, &product->depth);
}

std::string to_text(const ProductBlocks& product) {
  return std::to_string(product.rows) + "x" + std::to_string(product.cols) + "x" +
         std::to_string(product.depth) + (product.keep_a ? "a" : "");
}

std::string to_text(const Plan& plan) {
  std::string items;
  const auto add = [&](const std::string& item) { items += (items.empty() ? "" : ",") + item; };
  if (has_form(plan.schedule, Form::h)) {
    add(std::string("form=") + name_of(plan.blocks.form));
  }
  for (const SizeField& field : size_fields()) {
    const index_t size = plan.blocks.*field.size;
    if (size > 0) add(field.name + ("=" + std::to_string(size)));
  }
  for (const ProductField& field : product_fields()) {
    const ProductBlocks& product = plan.blocks.*field.product;
    if (product.rows > 0) {
      add(std::string(field.name) + "=" + to_text(product));
    }
  }
  if (plan.blocks.products == Products::stored) add("stored");
  for (const Flag& flag : flags)
    if (plan.blocks.*flag.is_set) add(std::string(flag.name));
  return plan.level + ":" + name_of(plan.schedule) + "(" + items +
         ") > reg:" + name_of(plan.tile.isa) + "(" + std::to_string(plan.tile.rows) + "x" +
         std::to_string(plan.tile.cols) + ")";
}

bool parse_plan(std::string_view text, Plan* plan, std::string* error) {
  Plan parsed;
  if (!parse(text, &parsed)) {
    *error = "not a plan: " + std::string(text);
    return false;
  }
  if (!has_whole_shares(parsed.blocks)) {
    *error = "not a plan: " + std::string(text) + " (c is no multiple of share, or share is odd)";
    return false;
  }
  // One plan, one text: what was executed can be compared by its text.
  const std::string canonical = to_text(parsed);
  if (canonical != text) {
    *error = "not a plan: " + std::string(text) + " (did you mean " + canonical + "?)";
    return false;
  }
  *plan = parsed;
  return true;
}

}  // namespace ioattn::plan
