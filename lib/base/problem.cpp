#include "base/problem.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ioattn {
namespace {

bool parse_size(std::string_view digits, index_t* value) {
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, *value);
  return result.ec == std::errc() && result.ptr == end && *value >= 0;
}

// "-3:0": first and last key relative to the query, * for no limit.
bool parse_band(std::string_view text, Mask* mask) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto limit = [](std::string_view digits, index_t* value) {
    if (digits == "*") return true;
    const char* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, *value);
    return result.ec == std::errc() && result.ptr == end && *value > -Mask::unbounded &&
           *value < Mask::unbounded;
  };
  return limit(text.substr(0, colon), &mask->first) && limit(text.substr(colon + 1), &mask->last) &&
         mask->first <= mask->last;
}

std::string shortest(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

bool parse_scale(std::string_view digits, double* scale) {
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, *scale);
  return result.ec == std::errc() && result.ptr == end && std::isfinite(*scale);
}

// Relative to the last query and key: what it stands for depends on sizes that may follow.
constexpr Mask bottom_right_mark = {0, -Mask::unbounded};

// *kind tells which fields exclude each other.
bool parse_field(std::string_view field, LayerProblem* problem, char* kind) {
  LayerShape& shape = problem->shape;
  *kind = field.empty() ? '\0' : field.front();
  if (field == "f32" || field == "f64") {
    problem->dtype = field == "f32" ? DType::f32 : DType::f64;
    return true;
  }
  if (field == "tied" || field == "self") {
    *kind = 't';
    shape.tie = field == "tied" ? Tie::kv : Tie::all;
    return true;
  }
  if (field == "causal" || field == "causal-bottom-right") {
    *kind = 'k';
    shape.mask = field == "causal" ? causal_top_left() : bottom_right_mark;
    return true;
  }
  if (field.substr(0, 4) == "keys") return parse_band(field.substr(4), &shape.mask);
  if (field.substr(0, 3) == "pad") return parse_size(field.substr(3), &problem->row_padding);
  if (*kind == 's') return parse_scale(field.substr(1), &problem->scale);
  index_t* size = nullptr;
  switch (*kind) {
    case 'n': size = &shape.n; break;
    case 'm': size = &shape.m; break;
    case 'd': size = &shape.d; break;
    case 'v': size = &shape.dv; break;
    case 'b': size = &problem->batch; break;
    default: return false;
  }
  return parse_size(field.substr(1), size);
}

}  // namespace

bool parse_problem(std::string_view text, LayerProblem* problem, std::string* error) {
  constexpr std::string_view prefix = "layer:";
  if (text.substr(0, prefix.size()) != prefix) {
    *error = "a problem begins with \"layer:\"";
    return false;
  }
  LayerProblem parsed;
  parsed.shape = {-1, -1, -1, -1, Tie::none};
  std::string kinds;
  std::size_t begin = prefix.size();
  while (begin < text.size() || !kinds.empty()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view field = text.substr(begin, comma - begin);
    char kind;
    if (!parse_field(field, &parsed, &kind)) {
      *error = "unknown field \"" + std::string(field) + "\" in " + std::string(text);
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
  LayerShape& shape = parsed.shape;
  if (shape.n < 0 || shape.d < 0) {
    *error = "n and d are required in " + std::string(text);
    return false;
  }
  if (shape.m < 0) shape.m = shape.n;
  if (shape.dv < 0) shape.dv = shape.d;
  if (shape.mask == bottom_right_mark) shape.mask = causal_bottom_right(shape.n, shape.m);
  if (shape.tie == Tie::all && shape.n != shape.m) {
    *error = "self needs n = m in " + std::string(text);
    return false;
  }
  *problem = parsed;
  return true;
}

std::string mask_text(const LayerShape& shape) {
  const Mask& mask = shape.mask;
  const auto limit = [](index_t value) {
    return value == -Mask::unbounded || value == Mask::unbounded ? "*" : std::to_string(value);
  };
  if (!mask.hides()) return "none";
  if (mask == causal_top_left()) return "causal";
  if (mask == causal_bottom_right(shape.n, shape.m)) return "causal-bottom-right";
  return "keys" + limit(mask.first) + ":" + limit(mask.last);
}

std::string to_text(const LayerProblem& problem) {
  const LayerShape& shape = problem.shape;
  std::string text = "layer:n" + std::to_string(shape.n) + ",m" + std::to_string(shape.m) + ",d" +
                     std::to_string(shape.d) + ",v" + std::to_string(shape.dv) + "," +
                     name_of(problem.dtype);
  if (shape.tie == Tie::kv) text += ",tied";
  if (shape.tie == Tie::all) text += ",self";
  if (shape.mask.hides()) text += "," + mask_text(shape);
  if (problem.batch != 1) text += ",b" + std::to_string(problem.batch);
  if (problem.scale != 1) text += ",s" + shortest(problem.scale);
  if (problem.row_padding != 0) text += ",pad" + std::to_string(problem.row_padding);
  return text;
}

}  // namespace ioattn
