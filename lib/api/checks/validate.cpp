#include "api/checks/validate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked_size.hpp"
#include "plan/layer/layer_candidates.hpp"

namespace ioattn::api {

Status invalid(const char* message) {
  return Status::error(StatusCode::invalid_argument, "%s", message);
}

Status validate_scale(double scale, DType dtype) {
  const bool wide = dtype == DType::f64;
  const double most = wide ? std::numeric_limits<double>::max()
                           : static_cast<double>(std::numeric_limits<float>::max());
  const bool is_finite = std::fabs(scale) <= most;
  const bool vanishes = is_finite && !wide && scale != 0 && static_cast<float>(scale) == 0;
  if (is_finite && !vanishes) return Status::ok();
  return Status::error(StatusCode::invalid_argument, "the scale %g is %s in %s", scale,
                       vanishes ? "0" : "not finite", wide ? "float64" : "float32");
}

Status validate_shape(const LayerShape& shape) { return validate_problem({shape, DType::f32}); }

Status validate_problem(const LayerProblem& problem) {
  const LayerShape& shape = problem.shape;
  if (problem.batch < 1) {
    return Status::error(StatusCode::invalid_argument, "a batch of %lld entries is below 1",
                         static_cast<long long>(problem.batch));
  }
  const Status scale = validate_scale(problem.scale, problem.dtype);
  if (!scale.is_ok()) return scale;
  if (shape.n < 0 || shape.m < 0 || shape.d < 0 || shape.dv < 0) {
    return invalid("a size is negative");
  }
  // The largest figures anywhere: multiply-adds and words of all passes, and workspaces in bytes.
  // Of what is made again for every block of rows the cost model takes care.
  const CheckedSize widths = CheckedSize(shape.d) + shape.dv + 1;
  const CheckedSize rows = CheckedSize(shape.n) + shape.m + 1;
  const CheckedSize batch = CheckedSize(problem.batch) * 64;
  const CheckedSize work = batch * rows * rows * widths + batch * rows * widths * widths +
                           batch * widths * widths * widths;
  if (work.overflow()) {
    return Status::error(
        StatusCode::size_overflow,
        "batch = %lld, n = %lld, m = %lld, d = %lld, dv = %lld: the work does not fit in 64 bits",
        static_cast<long long>(problem.batch), static_cast<long long>(shape.n),
        static_cast<long long>(shape.m), static_cast<long long>(shape.d),
        static_cast<long long>(shape.dv));
  }
  return Status::ok();
}

Status validate_weights(index_t d, index_t dk) {
  const CheckedSize width = CheckedSize(d) + CheckedSize(dk) + CheckedSize(1);
  const CheckedSize work = width * width * width * CheckedSize(64);
  if (dk >= 0 && !work.overflow()) return Status::ok();
  return Status::error(dk < 0 ? StatusCode::invalid_argument : StatusCode::size_overflow,
                       "dk = %lld: %s", static_cast<long long>(dk),
                       dk < 0 ? "a size is negative" : "the work does not fit in 64 bits");
}

namespace {

bool is_positive(const ProductBlocks& tile) {
  return tile.rows > 0 && tile.cols > 0 && tile.depth > 0;
}
bool is_huge(const ProductBlocks& tile) {
  return std::max({tile.rows, tile.cols, tile.depth}) > largest_block;
}
Status huge_block() { return invalid("a block size of the plan exceeds 2^40"); }

}  // namespace

Status validate_plan(Pass pass, const plan::Plan& plan, const Mask& mask, DType dtype) {
  Status taken = check_masked(plan.schedule, mask.hides());
  if (taken.is_ok()) taken = check_pass(plan.schedule, pass);
  if (!taken.is_ok()) return taken;
  const Variant variant = variant_of(pass, plan.schedule, plan.blocks);
  const auto known = variants();
  if (std::find(known.begin(), known.end(), variant) == known.end()) {
    return Status::error(StatusCode::unsupported, "there is no %s pass of %s", name_of(pass),
                         to_text(variant).c_str());
  }
  taken = check_dtype(plan.schedule, dtype, plan.tile.isa);
  if (!taken.is_ok()) return taken;
  bool positive = true, huge = false;
  for (const SizeField& field : size_fields()) {
    const index_t size = plan.blocks.*field.size;
    positive = positive && (!uses(variant, field.name) || size > 0);
    huge = huge || size > largest_block;
  }
  for (const ProductField& field : product_fields()) {
    const ProductBlocks& tile = plan.blocks.*field.product;
    positive = positive && (!uses(variant, field.name) || is_positive(tile));
    huge = huge || is_huge(tile);
  }
  if (plan.schedule == Schedule::naive) {
    positive = plan.blocks.r == 0 || (plan.blocks.r == 1 && plan.blocks.c > 0);
  }
  if (huge) return huge_block();
  const bool has_shares =
      plan.schedule == Schedule::tile_fused && (pass == Pass::backward || plan.blocks.one_pass);
  if (plan.blocks.share > 0 && !has_shares) {
    return Status::error(StatusCode::unsupported,
                         "shares are of tile_fused, for gradients of queries");
  }
  const bool may_be_packed =
      plan.schedule == Schedule::tile_fused && is_half(dtype) && pass != Pass::forward;
  if (plan.blocks.packed && !may_be_packed) {
    return Status::error(StatusCode::unsupported,
                         "blocks of keys are packed for gradients by pairs of bf16 alone");
  }
  const bool may_be_parked =
      plan.schedule == Schedule::tile_fused && !is_half(dtype) && pass != Pass::forward;
  if (plan.blocks.parked && !may_be_parked) {
    return Status::error(
        StatusCode::unsupported,
        "of the layer problem weights are parked for gradients by tile_fused in f32 "
        "and f64 alone");
  }
  if (!positive) {
    return Status::error(StatusCode::invalid_argument, "the plan lacks a block size of %s",
                         name_of(plan.schedule));
  }
  return Status::ok();
}

Status validate_plan(const plan::LayerPlan& plan, const std::optional<GradientSet>& gradients,
                     const LayerShape& shape, DType dtype) {
  plan::Plan pass = plan::pass_of(plan);
  if (!gradients) return validate_plan(Pass::forward, pass, shape.mask, dtype);
  const GradientSet& set = *gradients;
  const LayerBlocks& blocks = plan.blocks;
  Status status = check_tie(set, shape.tie);
  if (!status.is_ok()) return status;
  const GradientSteps steps = steps_of(set, shape.tie, blocks.rows.form);
  status = validate_plan(Pass::backward, pass, shape.mask, dtype);
  if (!status.is_ok()) return status;
  for (const GradientProduct& product : gradient_products)
    if (is_huge(blocks.*product.blocks)) return huge_block();
  if (blocks.sum > largest_block) return huge_block();
  if (steps.alone) return status;
  if (!leaves_u(blocks.schedule) || blocks.rows.products != Products::stored) {
    return Status::error(StatusCode::unsupported,
                         "gradients other than dX take row_stream, q_stored or half_dim with "
                         "stored products");
  }
  if (!has_gradients(set, blocks.rows.form) ||
      (has_key_pass(steps, blocks) && blocks.keys.form != blocks.rows.form)) {
    return Status::error(StatusCode::unsupported, "the plan's form does not give these gradients");
  }
  const bool by_tiles = blocks.by_keys == Schedule::tile_fused;
  if (blocks.keys.one_pass &&
      (!steps.rows || (!steps.keys && !by_tiles) || blocks.schedule != Schedule::row_stream)) {
    return Status::error(StatusCode::unsupported,
                         "one pass is of col_stream, for gradients of queries and of keys, or of "
                         "tile_fused, for gradients of queries");
  }
  if (by_tiles && is_half(dtype) && has_row_pass(steps, blocks)) {
    return Status::error(StatusCode::unsupported,
                         "where products are of pairs tile_fused makes U in one pass");
  }
  if (has_key_pass(steps, blocks)) {
    pass.schedule = blocks.by_keys;
    pass.blocks = blocks.keys;
    status = validate_plan(Pass::backward_keys, pass, shape.mask, dtype);
    if (!status.is_ok()) return status;
    if (blocks.keys.parked && !key_pass(steps, blocks).makes_p()) {
      return Status::error(StatusCode::unsupported, "gradients of values alone park no weights");
    }
  }
  bool lacks_size = steps.parts && blocks.sum < 1;
  for (const GradientProduct& product : gradient_products)
    lacks_size = lacks_size || (steps.*product.runs && !is_positive(blocks.*product.blocks));
  if (lacks_size) return invalid("the plan lacks a block size of a product");
  return Status::ok();
}

}  // namespace ioattn::api
