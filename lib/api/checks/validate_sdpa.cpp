#include "api/checks/validate_sdpa.hpp"

#include <algorithm>

#include "api/checks/validate.hpp"
#include "base/checked_size.hpp"

namespace ioattn::api {

bool is_trivial(const SdpaShape& shape) {
  return shape.batch == 0 || shape.heads == 0 || shape.n == 0 || shape.dv == 0 ||
         seen_keys(shape.head()).is_empty();
}

Status validate_problem(const SdpaProblem& problem) {
  const SdpaShape& s = problem.shape;
  for (const index_t size : {s.batch, s.heads, s.kv_heads, s.n, s.m, s.d, s.dv}) {
    if (size < 0) return invalid("a size is negative");
  }
  if (s.kv_heads == 0 ? s.heads != 0 : s.heads % s.kv_heads != 0) {
    return Status::error(StatusCode::invalid_argument,
                         "%lld query heads are no multiple of %lld heads of keys",
                         static_cast<long long>(s.heads), static_cast<long long>(s.kv_heads));
  }
  const auto fits = [](index_t given, index_t all) { return given == 1 || given == all; };
  if (s.bias_batch != 0 || s.bias_heads != 0) {
    if (!fits(s.bias_batch, s.batch)) return invalid("bias_batch is neither 1 nor batch");
    if (!fits(s.bias_heads, s.heads)) return invalid("bias_heads is neither 1 nor heads");
  }
  const Status scale = validate_scale(problem.scale, problem.dtype);
  if (!scale.is_ok()) return scale;
  // The largest figures anywhere: multiply-adds, words and bytes of all passes.
  const CheckedSize n = CheckedSize(s.n) + 1, m = CheckedSize(s.m) + 1;
  const CheckedSize width = CheckedSize(s.d) + CheckedSize(s.dv) + 1;
  const CheckedSize heads = (CheckedSize(s.batch) + 1) * (CheckedSize(s.heads) + 1);
  const CheckedSize pairs = n * m * width * heads * CheckedSize(16);
  const CheckedSize products = (n + m) * width * width * CheckedSize(16);
  if (!pairs.overflow() && !products.overflow()) return Status::ok();
  return Status::error(StatusCode::size_overflow, "%s: the work does not fit in 64 bits",
                       to_text(problem).c_str());
}

Status validate_plan(const plan::SdpaPlan& plan, const std::optional<SdpaSet>& set) {
  if (!plan::has_blocks(plan.blocks, set)) return invalid("the plan is none of this SDPA pass");
  index_t largest = 0;
  for (const Blocks* of : {&plan.blocks.rows, &plan.blocks.keys})
    for (const SizeField& field : size_fields()) largest = std::max(largest, of->*field.size);
  return largest <= largest_block ? Status::ok() : invalid("a block size of the plan exceeds 2^40");
}

}  // namespace ioattn::api
