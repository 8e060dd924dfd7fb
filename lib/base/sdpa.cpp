#include "base/sdpa.hpp"

#include <algorithm>
#include <cmath>

#include "base/problem_text.hpp"

namespace ioattn {
namespace {

// *kind tells which fields exclude each other.
bool parse_field(std::string_view field, SdpaProblem* problem, char* kind) {
  SdpaShape& shape = problem->shape;
  *kind = field.empty() ? '\0' : field.front();
  if (parse_dtype(field, &problem->dtype)) {
    *kind = 'f';
    return true;
  }
  if (is_mask(field)) {
    *kind = 'c';
    return parse_mask(field, &shape.mask);
  }
  if (field.substr(0, 4) == "bias") {
    *kind = 'x';
    const std::size_t cross = field.find('x');
    return cross != std::string_view::npos &&
           parse_size(field.substr(4, cross - 4), &shape.bias_batch) &&
           parse_size(field.substr(cross + 1), &shape.bias_heads);
  }
  if (field.substr(0, 2) == "kv") return parse_size(field.substr(2), &shape.kv_heads);
  if (*kind == 's') return parse_scale(field.substr(1), &problem->scale) && problem->scale != 0;
  index_t* size = nullptr;
  switch (*kind) {
    case 'b': size = &shape.batch; break;
    case 'h': size = &shape.heads; break;
    case 'n': size = &shape.n; break;
    case 'm': size = &shape.m; break;
    case 'd': size = &shape.d; break;
    case 'v': size = &shape.dv; break;
    default: *kind = '\0'; return false;
  }
  return parse_size(field.substr(1), size);
}

constexpr const char* known_fields =
    "bN, hN, kvN, nN, mN, dN, vN, sSCALE, f32, f64, bf16, f16, biasBxH, causal, "
    "causal-bottom-right, keysFIRST:LAST";

}  // namespace

SdpaShape shape_to_plan(SdpaShape shape) {
  for (index_t SdpaShape::*size : {&SdpaShape::batch, &SdpaShape::kv_heads, &SdpaShape::n,
                                   &SdpaShape::m, &SdpaShape::d, &SdpaShape::dv}) {
    shape.*size = std::max<index_t>(shape.*size, 1);
  }
  shape.heads = std::max(shape.heads, shape.kv_heads);
  return shape;
}

bool parse_problem(std::string_view text, SdpaProblem* problem, std::string* error) {
  constexpr std::string_view prefix = "sdpa:";
  if (text.substr(0, prefix.size()) != prefix) {
    *error = "an SDPA problem begins with \"sdpa:\"";
    return false;
  }
  SdpaProblem parsed;
  SdpaShape& shape = parsed.shape;
  shape.kv_heads = shape.n = shape.m = shape.d = shape.dv = -1;
  const auto parse = [&](std::string_view field, char* kind) {
    return parse_field(field, &parsed, kind);
  };
  if (!parse_fields(text, prefix.size(), parse, known_fields, error)) return false;
  if (shape.n < 0 || shape.d < 0) {
    *error = "n and d are required in " + std::string(text);
    return false;
  }
  if (shape.kv_heads < 0) shape.kv_heads = shape.heads;
  if (shape.m < 0) shape.m = shape.n;
  if (shape.dv < 0) shape.dv = shape.d;
  shape.mask = placed_mask(shape.mask, shape.n, shape.m);
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    *error = "h is no multiple of kv in " + std::string(text);
    return false;
  }
  const auto fits = [](index_t given, index_t all) { return given == 1 || given == all; };
  if (shape.has_bias() &&
      !(fits(shape.bias_batch, shape.batch) && fits(shape.bias_heads, shape.heads))) {
    *error = "the bias does not fit b and h in " + std::string(text);
    return false;
  }
  *problem = parsed;
  return true;
}

std::string to_text(const SdpaProblem& problem) {
  const SdpaShape& shape = problem.shape;
  std::string text = "sdpa:b" + std::to_string(shape.batch) + ",h" + std::to_string(shape.heads) +
                     ",kv" + std::to_string(shape.kv_heads) + ",n" + std::to_string(shape.n) +
                     ",m" + std::to_string(shape.m) + ",d" + std::to_string(shape.d) + ",v" +
                     std::to_string(shape.dv) + "," + name_of(problem.dtype);
  if (shape.mask.hides()) text += "," + mask_text(shape.mask, shape.n, shape.m);
  if (problem.scale != 0) text += ",s" + shortest_text(problem.scale);
  if (shape.has_bias()) {
    text += ",bias" + std::to_string(shape.bias_batch) + "x" + std::to_string(shape.bias_heads);
  }
  return text;
}

double scale_of(const SdpaProblem& problem) {
  if (problem.scale != 0) return problem.scale;
  return 1 / std::sqrt(static_cast<double>(std::max<index_t>(problem.shape.d, 1)));
}

}  // namespace ioattn
