#include "plan/sdpa_planner.hpp"

#include <algorithm>

#include "plan/blocking_col_stream.hpp"
#include "plan/blocking_rows.hpp"
#include "plan/plan.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

LayerShape unmasked_head(const SdpaShape& shape) {
  LayerShape head = shape.head();
  head.mask = {};
  return head;
}

constexpr Variant row_variant(Pass pass) {
  return {pass, Schedule::row_stream, Form::h, Products::stored};
}

Blocks row_blocks(Pass pass, const SdpaRequest& request) {
  Blocks blocks =
      choose_row_blocks(row_variant(pass), unmasked_head(request.shape), request.M, request.tile);
  blocks.s = blocks.h = blocks.x = {};  // products that the layer problem has around the pass
  return blocks;
}

Status check_memory(const SdpaRequest& request, Pass pass, index_t least) {
  if (request.M >= least) return Status::ok();
  return Status::error(StatusCode::fast_memory_too_small,
                       "M = %lld words is too small for the %s pass: the least is %lld",
                       static_cast<long long>(request.M), name_of(pass),
                       static_cast<long long>(least));
}

SdpaPlan plan_of(const SdpaRequest& request, const SdpaBlocks& blocks) {
  return {request.level, blocks, request.tile.isa, request.tile.rows, request.tile.cols};
}

}  // namespace

Status make_sdpa_plan(const SdpaRequest& request, SdpaPlan* plan, SdpaEstimate* estimate) {
  const LayerShape head = unmasked_head(request.shape);
  const Status fits =
      check_memory(request, Pass::forward, least_fast_memory(row_variant(Pass::forward), head));
  if (!fits.is_ok()) return fits;
  const SdpaBlocks blocks = {row_blocks(Pass::forward, request), {}};
  *plan = plan_of(request, blocks);
  if (estimate != nullptr) {
    *estimate = {theory::sdpa_forward_cost(request.shape, blocks.rows),
                 theory::sdpa_forward_fma(request.shape), 0};
  }
  return Status::ok();
}

Status make_sdpa_plan(const SdpaRequest& request, const SdpaSet& set, SdpaPlan* plan,
                      SdpaEstimate* estimate) {
  const LayerShape head = unmasked_head(request.shape);
  const index_t scratch =
      set.delta() ? request.shape.all_heads() * request.shape.n * size_of(request.dtype) : 0;
  if (request.memory_limit_bytes >= 0 && scratch > request.memory_limit_bytes) {
    return Status::error(
        StatusCode::memory_limit, "the gradients need %lld bytes of scratch memory, more than %lld",
        static_cast<long long>(scratch), static_cast<long long>(request.memory_limit_bytes));
  }
  // Of one head without a mask, on which blocks do not depend.
  SdpaShape one_head = request.shape;
  one_head.batch = one_head.heads = one_head.kv_heads = 1;
  one_head.mask = {};
  const index_t least_for_rows = least_fast_memory(row_variant(Pass::backward), head);
  index_t least_M = 0;
  double least_time = 0;
  SdpaBlocks blocks;
  const auto consider = [&](bool one_pass) {
    index_t least = least_for_rows;
    if (set.keys())
      least = std::max(least, least_col_stream(head, Form::h, set.key_pass(one_pass)));
    if (least_M == 0 || least < least_M) least_M = least;
    if (request.M < least) return;
    SdpaBlocks trial;
    trial.one_pass = one_pass;
    trial.rows = row_blocks(Pass::backward, request);
    if (set.keys()) {
      trial.keys =
          choose_col_stream(head, Form::h, set.key_pass(one_pass), request.M, request.tile);
    }
    const theory::IoCost cost = theory::sdpa_backward_cost(one_head, set, trial).total();
    const double time = static_cast<double>(theory::sdpa_backward_fma(one_head, set, one_pass)) +
                        fma_per_word * static_cast<double>(cost.words());
    if (least_time > 0 && time >= least_time) return;
    least_time = time;
    blocks = trial;
  };
  consider(false);
  if (set.dQ && set.keys()) consider(true);
  const Status fits = check_memory(request, Pass::backward, least_M);
  if (!fits.is_ok()) return fits;
  *plan = plan_of(request, blocks);
  if (estimate != nullptr) {
    *estimate = {theory::sdpa_backward_cost(request.shape, set, blocks),
                 theory::sdpa_backward_fma(request.shape, set, blocks.one_pass), scratch};
  }
  return Status::ok();
}

std::string to_text(const SdpaPlan& plan) {
  const auto pass = [&](Schedule schedule, const Blocks& blocks) {
    return to_text(Plan{plan.level, schedule, blocks, plan.isa, plan.tile_rows, plan.tile_cols});
  };
  std::string text;
  if (!plan.blocks.one_pass) text = pass(Schedule::row_stream, plan.blocks.rows);
  if (plan.blocks.keys.c > 0) {
    text += (text.empty() ? "" : " ; ") + pass(Schedule::col_stream, plan.blocks.keys);
  }
  return text;
}

}  // namespace ioattn::plan
