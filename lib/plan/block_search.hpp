#pragma once

#include <algorithm>

#include "plan/blocking.hpp"
#include "theory/io_cost.hpp"

// What the choosers of blocks share.
namespace ioattn::plan {

inline index_t footprint(Pass pass, Schedule schedule, const LayerShape& shape,
                         const Blocks& blocks) {
  return theory::io_cost(pass, schedule, shape, blocks).total().footprint;
}

inline index_t longest_side(const LayerShape& shape) {
  return std::max({shape.n, shape.m, shape.d, shape.dv});
}

// The largest x in [1, limit] that satisfies a predicate which is true up to some x; 0 if none
// does.
template <class Predicate>
index_t largest(index_t limit, Predicate fits) {
  index_t low = 0, high = limit;
  while (low < high) {
    const index_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// A number of rows or columns cut to a multiple of the register tile if it reaches one.
constexpr index_t whole_tiles(index_t size, index_t tile) {
  return size >= tile ? round_down(size, tile) : size;
}

// Blocks of one element in every field that the variant uses.
inline Blocks unit_blocks(const Variant& variant) {
  Blocks blocks;
  blocks.form = variant.form;
  blocks.products = variant.products;
  for (const SizeField& field : size_fields()) {
    if (uses(variant, field.name)) blocks.*field.size = 1;
  }
  for (const ProductField& field : product_fields()) {
    if (uses(variant, field.name)) blocks.*field.product = {1, 1, 1};
  }
  // Without r and c, naive holds everything; its least is a word of each operand.
  if (variant.schedule == Schedule::naive) blocks.r = blocks.c = 1;
  return blocks;
}

}  // namespace ioattn::plan
