#include "plan/sdpa/sdpa_least.hpp"

#include "theory/sdpa_cost.hpp"

namespace ioattn::plan {
namespace {

// n and m are no part of what the least tiles take.
SdpaShape one_pair(const SdpaShape& shape) { return {1, 1, 1, 1, 1, shape.d, shape.dv}; }

// And delta word by word.
constexpr Blocks unit_tiles(bool one_pass) {
  Blocks blocks;
  blocks.form = Form::h;
  blocks.c = blocks.rho = blocks.w = blocks.o = 1;
  blocks.one_pass = one_pass;
  return blocks;
}

}  // namespace

index_t least_of_tiles(const SdpaRequest& request) {
  const bool pairs = multiplies_pairs(request.tile.isa);
  const Blocks unit = unit_tiles(false);
  return theory::sdpa_forward_cost(one_pair(request.shape), unit, true, request.dtype, pairs)
      .total()
      .footprint;
}

index_t least_of_tiles(const SdpaRequest& request, const SdpaSet& set) {
  const bool pairs = multiplies_pairs(request.tile.isa);
  const Blocks unit = unit_tiles(set.may_be_one_pass(Schedule::tile_fused));
  const SdpaBlocks blocks = {unit, unit, Schedule::tile_fused};
  return theory::sdpa_backward_cost(one_pair(request.shape), set, blocks, request.dtype, pairs)
      .total()
      .footprint;
}

}  // namespace ioattn::plan
