#include "base/problem_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/parse.hpp"

namespace ioattn {
namespace {

// "-3:0": first and last key relative to the query, * for no limit.
bool parse_band(std::string_view text, Mask* mask) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto limit = [](std::string_view digits, index_t* value) {
    return digits == "*" ||
           (parse_number(digits, value) && *value > -Mask::unbounded && *value < Mask::unbounded);
  };
  return limit(text.substr(0, colon), &mask->first) && limit(text.substr(colon + 1), &mask->last) &&
         mask->first <= mask->last;
}

// Relative to the last query and key: what it stands for depends on sizes that may follow.
constexpr Mask bottom_right_mark = {0, -Mask::unbounded};

}  // namespace

bool parse_size(std::string_view digits, index_t* value) {
  return parse_number(digits, value) && *value >= 0;
}

bool parse_scale(std::string_view digits, double* scale) {
  return parse_number(digits, scale) && std::isfinite(*scale);
}

std::string shortest_text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

bool is_mask(std::string_view field) {
  return field == "causal" || field == "causal-bottom-right" || field.substr(0, 4) == "keys";
}

bool parse_mask(std::string_view field, Mask* mask) {
  if (field.substr(0, 4) == "keys") return parse_band(field.substr(4), mask);
  *mask = field == "causal" ? causal_top_left() : bottom_right_mark;
  return is_mask(field);
}

Mask placed_mask(const Mask& parsed, index_t n, index_t m) {
  return parsed == bottom_right_mark ? causal_bottom_right(n, m) : parsed;
}

std::string mask_text(const Mask& mask, index_t n, index_t m) {
  const auto limit = [](index_t value) {
    return value == -Mask::unbounded || value == Mask::unbounded ? "*" : std::to_string(value);
  };
  if (!mask.hides()) return "none";
  if (mask == causal_top_left()) return "causal";
  if (mask == causal_bottom_right(n, m)) return "causal-bottom-right";
  return "keys" + limit(mask.first) + ":" + limit(mask.last);
}

bool parse_fields(std::string_view text, std::size_t begin, const ParseField& parse,
                  const char* known_fields, std::string* error) {
  std::string kinds;
  while (begin < text.size() || !kinds.empty()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view field = text.substr(begin, comma - begin);
    char kind = '\0';
    if (!parse(field, &kind)) {
      const std::string quoted = "field \"" + std::string(field) + "\"";
      *error = (kind == '\0' ? "unknown " + quoted : "the value of " + quoted + " is not valid") +
               " in " + std::string(text) + "; there are " + known_fields;
      return false;
    }
    if (kinds.find(kind) != std::string::npos) {
      *error = "field \"" + std::string(field) + "\" repeats another in " + std::string(text);
      return false;
    }
    kinds += kind;
    if (comma == text.size()) break;
    begin = comma + 1;
  }
  return true;
}

}  // namespace ioattn
