#include "base/schedule.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/parse.hpp"

namespace ioattn {
namespace {
struct Row {
  Variant variant;
  const char* fields;  // of Blocks
};
constexpr Row table[] = {
    {{Pass::forward, Schedule::paper_small}, "r c"},
    {{Pass::forward, Schedule::paper_large}, "r c"},
    {{Pass::forward, Schedule::row_stream, Form::g}, "r c rho w o a b"},
    {{Pass::forward, Schedule::row_stream, Form::h}, "r c rho w o a b h"},
    {{Pass::forward, Schedule::stationary, Form::g}, "s f u x"},
    {{Pass::forward, Schedule::stationary, Form::h}, "s h f u"},
    {{Pass::forward, Schedule::score_stored, Form::g}, "s f u x"},
    {{Pass::forward, Schedule::score_stored, Form::h}, "s h f u"},
    {{Pass::forward, Schedule::row_stream, Form::g, Products::stored}, "r c rho s x"},
    {{Pass::forward, Schedule::row_stream, Form::h, Products::stored}, "r c rho s h"},
    {{Pass::forward, Schedule::tile_fused, Form::h, Products::stored}, "c rho w s h"},
    // r = c = 0: everything is resident
    {{Pass::backward, Schedule::naive}, ""},
    {{Pass::backward, Schedule::paper_small}, "r c"},
    {{Pass::backward, Schedule::paper_large}, "r c"},
    {{Pass::backward, Schedule::row_stream, Form::g}, "r c rho w o a b"},
    {{Pass::backward, Schedule::row_stream, Form::h}, "r c rho w o a b h"},
    {{Pass::backward, Schedule::stationary, Form::g}, "w o s g f q u x"},
    {{Pass::backward, Schedule::stationary, Form::h}, "w o s h f q u x"},
    {{Pass::backward, Schedule::row_stream, Form::g, Products::stored}, "r c rho w o s g x"},
    {{Pass::backward, Schedule::row_stream, Form::h, Products::stored}, "r c rho w o s h x"},
    {{Pass::backward, Schedule::q_stored, Form::g}, "r c rho w o a b g q"},
    {{Pass::backward, Schedule::q_stored, Form::h}, "r c rho w o a b h q"},
    {{Pass::backward, Schedule::q_stored, Form::g, Products::stored}, "r c rho w o s g q x"},
    {{Pass::backward, Schedule::q_stored, Form::h, Products::stored}, "r c rho w o s h q x"},
    {{Pass::backward, Schedule::half_dim, Form::g, Products::stored}, "r c rho w o s g f q u x"},
    {{Pass::backward, Schedule::half_dim, Form::h, Products::stored}, "r c rho w o s h f q u x"},
    {{Pass::backward, Schedule::weight_resident, Form::g}, "r c rho w o"},
    {{Pass::backward, Schedule::weight_resident, Form::h}, "r c rho o h"},
    {{Pass::backward, Schedule::resident}, "r c"},
    {{Pass::backward, Schedule::tile_fused, Form::h, Products::stored}, "c rho w o s h x"},
    {{Pass::backward_keys, Schedule::col_stream, Form::g}, "c rho"},
    {{Pass::backward_keys, Schedule::col_stream, Form::h}, "c rho"},
    {{Pass::backward_keys, Schedule::tile_fused, Form::h}, "c rho w"},
};
constexpr std::size_t variant_count = std::size(table);

constexpr auto variant_list = [] {
  std::array<Variant, variant_count> list{};
  for (std::size_t i = 0; i < variant_count; ++i) list[i] = table[i].variant;
  return list;
}();

constexpr SizeField sizes[] = {{"r", &Blocks::r},     {"c", &Blocks::c}, {"share", &Blocks::share},
                               {"rho", &Blocks::rho}, {"w", &Blocks::w}, {"o", &Blocks::o},
                               {"a", &Blocks::a},     {"b", &Blocks::b}};
constexpr ProductField products[] = {{"s", &Blocks::s}, {"g", &Blocks::g}, {"h", &Blocks::h},
                                     {"f", &Blocks::f}, {"q", &Blocks::q}, {"u", &Blocks::u},
                                     {"x", &Blocks::x}};

constexpr bool has_field(std::string_view fields, std::string_view field) {
  while (!fields.empty()) {
    const std::size_t end = std::min(fields.find(' '), fields.size());
    if (fields.substr(0, end) == field) return true;
    fields.remove_prefix(std::min(end + 1, fields.size()));
  }
  return false;
}

// Planning a short pass takes little longer than to look up its fields by name.
constexpr auto unit_list = [] {
  std::array<Blocks, variant_count> list{};
  for (std::size_t i = 0; i < variant_count; ++i) {
    list[i].form = table[i].variant.form;
    list[i].products = table[i].variant.products;
    for (const SizeField& field : sizes)
      if (has_field(table[i].fields, field.name)) list[i].*field.size = 1;
    for (const ProductField& field : products)
      if (has_field(table[i].fields, field.name)) list[i].*field.product = {1, 1, 1};
  }
  return list;
}();

std::size_t index_of(const Variant& variant) {
  return static_cast<std::size_t>(std::find(variant_list.begin(), variant_list.end(), variant) -
                                  variant_list.begin());
}

template <class Predicate>
bool any_variant(Predicate&& predicate) {
  return std::any_of(std::begin(variant_list), std::end(variant_list), predicate);
}
}  // namespace

std::span<const Variant> variants() { return variant_list; }
std::span<const SizeField> size_fields() { return sizes; }
std::span<const ProductField> product_fields() { return products; }

Variant variant_of(Pass pass, Schedule schedule, const Blocks& blocks) {
  return {pass, schedule, blocks.form, blocks.products};
}

std::string to_text(const Variant& variant) {
  std::string text = name_of(variant.schedule);
  if (has_form(variant.schedule, Form::h) && has_form(variant.schedule, Form::g)) {
    text += std::string(" ") + name_of(variant.form);
  }
  return variant.products == Products::stored ? text + " stored" : text;
}

bool uses(const Variant& variant, std::string_view field) {
  const std::size_t index = index_of(variant);
  return index < variant_count && has_field(table[index].fields, field);
}

Blocks unit_blocks(const Variant& variant) {
  const std::size_t index = index_of(variant);
  if (index < variant_count) return unit_list[index];
  Blocks blocks;
  blocks.form = variant.form;
  blocks.products = variant.products;
  return blocks;
}

bool parse_schedule(std::string_view name, Schedule* schedule) {
  return parse_name(name, schedule_count, schedule);
}

bool exists(Schedule schedule, Pass pass) {
  return any_variant([&](const Variant& v) { return v.schedule == schedule && v.pass == pass; });
}

bool has_form(Schedule schedule, Form form) {
  return any_variant([&](const Variant& v) { return v.schedule == schedule && v.form == form; });
}

Status check_pass(Schedule schedule, Pass pass) {
  if (exists(schedule, pass)) return Status::ok();
  return Status::error(StatusCode::unsupported, "%s has no %s pass", name_of(schedule),
                       name_of(pass));
}

Status check_masked(Schedule schedule, bool hides) {
  if (!hides || takes_masks(schedule)) return Status::ok();
  return Status::error(StatusCode::unsupported, "%s takes no mask", name_of(schedule));
}

Status check_dtype(Schedule schedule, DType dtype, Isa isa) {
  if (takes_dtype(schedule, dtype, isa)) return Status::ok();
  if (schedule == Schedule::tile_fused) {
    return Status::error(StatusCode::unsupported,
                         "%s takes operands in 16 bits as pairs of bf16 alone, which %s does not "
                         "multiply",
                         name_of(schedule),
                         dtype == DType::bf16 ? name_of(isa) : "any kernel of f16");
  }
  return Status::error(StatusCode::unsupported, "%s takes no operands in 16 bits",
                       name_of(schedule));
}

}  // namespace ioattn
