#include "base/problem.hpp"

#include <algorithm>

#include "base/problem_text.hpp"

namespace ioattn {
namespace {

// *kind tells which fields exclude each other.
bool parse_field(std::string_view field, LayerProblem* problem, char* kind) {
  LayerShape& shape = problem->shape;
  *kind = field.empty() ? '\0' : field.front();
  if (parse_dtype(field, &problem->dtype)) {
    *kind = 'f';
    return true;
  }
  if (field == "tied" || field == "self") {
    *kind = 't';
    shape.tie = field == "tied" ? Tie::kv : Tie::all;
    return true;
  }
  if (is_mask(field)) {
    *kind = 'k';
    return parse_mask(field, &shape.mask);
  }
  if (*kind == 's') return parse_scale(field.substr(1), &problem->scale);
  index_t* size = nullptr;
  switch (*kind) {
    case 'n': size = &shape.n; break;
    case 'm': size = &shape.m; break;
    case 'd': size = &shape.d; break;
    case 'v': size = &shape.dv; break;
    case 'b': size = &problem->batch; break;
    default: *kind = '\0'; return false;
  }
  return parse_size(field.substr(1), size);
}

constexpr const char* known_fields =
    "nN, mN, dN, vN, bN, sSCALE, f32, f64, bf16, f16, tied, self, causal, causal-bottom-right, "
    "keysFIRST:LAST";

}  // namespace

LayerShape shape_to_plan(LayerShape shape) {
  for (index_t LayerShape::*size :
       {&LayerShape::n, &LayerShape::m, &LayerShape::d, &LayerShape::dv}) {
    shape.*size = std::max<index_t>(shape.*size, 1);
  }
  return shape;
}

bool parse_problem(std::string_view text, LayerProblem* problem, std::string* error) {
  constexpr std::string_view prefix = "layer:";
  if (text.substr(0, prefix.size()) != prefix) {
    *error = "a problem begins with \"layer:\" or \"sdpa:\"";
    return false;
  }
  LayerProblem parsed;
  parsed.shape = {-1, -1, -1, -1, Tie::none};
  const auto parse = [&](std::string_view field, char* kind) {
    return parse_field(field, &parsed, kind);
  };
  if (!parse_fields(text, prefix.size(), parse, known_fields, error)) return false;
  LayerShape& shape = parsed.shape;
  if (shape.n < 0 || shape.d < 0) {
    *error = "n and d are required in " + std::string(text);
    return false;
  }
  if (shape.m < 0) shape.m = shape.n;
  if (shape.dv < 0) shape.dv = shape.d;
  shape.mask = placed_mask(shape.mask, shape.n, shape.m);
  if (shape.tie == Tie::all && shape.n != shape.m) {
    *error = "self needs n = m in " + std::string(text);
    return false;
  }
  *problem = parsed;
  return true;
}

std::string mask_text(const LayerShape& shape) { return mask_text(shape.mask, shape.n, shape.m); }

std::string to_text(const LayerProblem& problem) {
  const LayerShape& shape = problem.shape;
  std::string text = "layer:n" + std::to_string(shape.n) + ",m" + std::to_string(shape.m) + ",d" +
                     std::to_string(shape.d) + ",v" + std::to_string(shape.dv) + "," +
                     name_of(problem.dtype);
  if (shape.tie == Tie::kv) text += ",tied";
  if (shape.tie == Tie::all) text += ",self";
  if (shape.mask.hides()) text += "," + mask_text(shape);
  if (problem.batch != 1) text += ",b" + std::to_string(problem.batch);
  if (problem.scale != 1) text += ",s" + shortest_text(problem.scale);
  return text;
}

}  // namespace ioattn
