#include "plan/blocks/blocking_weight_resident.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/pair_speed.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::plan {
namespace {

// In multiply-adds. T sums over rho queries, dX over c keys, the rest over d or dv; the rows of A1
// are packed once per key block.
double estimated_time(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                      const Price& price, const TileShape& tile) {
  const index_t words =
      theory::io_cost(variant.pass, variant.schedule, shape, blocks).total().words();
  const index_t keys = std::min(blocks.c, shape.m), queries = std::min(blocks.rho, shape.n);
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d), e = static_cast<double>(shape.dv);
  const double passes = static_cast<double>(ceil_div(shape.n, blocks.r));
  const double packed = n * d * static_cast<double>(ceil_div(shape.m, keys));
  const double value = variant.form == Form::h ? e : d;
  return price.per_word * static_cast<double>(words) + fma_per_packed_word(tile.isa) * packed +
         n * m * ((d + value) * wasted_lanes(queries, tile) + d / efficiency(queries)) +
         passes * m * d * d * (1 + 1 / efficiency(keys));
}

}  // namespace

Blocks smallest_weight_resident(const Variant& variant, const LayerShape& shape) {
  Blocks blocks = unit_blocks(variant);
  blocks.r = blocks.rho = std::min(least_block, shape.n);
  blocks.c = std::min(least_block, shape.m);
  return blocks;
}

Blocks choose_weight_resident(const Variant& variant, const LayerShape& shape,
                              const FastMemory& memory, const TileShape& tile) {
  const index_t M = memory.M;
  Blocks smallest = smallest_weight_resident(variant, shape);
  if (variant.form == Form::h)
    smallest.h = choose_product({shape.m, shape.d, shape.dv}, M, {.price = memory.price});
  Blocks blocks = search_rows(
      variant.pass, shape, memory, tile, smallest,
      [&](const Blocks& trial) { return footprint(variant, shape, trial); },
      [&](const Blocks& trial, const Price& price) {
        return estimated_time(variant, shape, trial, price, tile);
      });
  if (variant.form == Form::g) {
    widen(variant, shape, M, shape.d, tile.rows, &Blocks::w, &blocks);
  }
  widen(variant, shape, M, shape.n, 1, &Blocks::o, &blocks);
  return blocks;
}

}  // namespace ioattn::plan
