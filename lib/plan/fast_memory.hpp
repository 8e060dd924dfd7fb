#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/objective.hpp"
#include "plan/product_blocks.hpp"

namespace ioattn::plan {

// What blocks have to fit: M words. Where these are an outer cache's, because blocks that fit the
// inner one are too short for fast kernels, its words count besides; else inner_M is 0.
struct FastMemory {
  index_t M = 0;
  index_t inner_M = 0;
  Price price;

  FastMemory(index_t words, index_t inner_words = 0, const Price& of_words = {})  // NOLINT
      : M(words), inner_M(inner_words), price(of_words) {}
  bool is_outer() const { return inner_M > 0; }
  FastMemory of_time() const { return {M, inner_M, price.of_time()}; }
};

// Of the time in the inner memory, to be held in the outer one.
inline constexpr double usual_outer_time = 0.95;

// A time as it counts where levels compete: blocks in the outer cache have to save a twentieth, for
// it is shared, and its size is less sure.
inline double weighed(double time, const FastMemory& memory) {
  return memory.is_outer() ? time / usual_outer_time : time;
}
// The same of a pass over rows that makes its thin products on the way, whose estimated saving is
// the measured one (Zen 4, d = 256): three hundredths.
inline double weighed_fused(double time, const FastMemory& memory) {
  return memory.is_outer() ? time / 0.97 : time;
}
constexpr const char* outer_level = "L3";

// Of sizes in a time.
constexpr double product(index_t x, index_t y) {
  return static_cast<double>(x) * static_cast<double>(y);
}

// About how many words pass between the two levels while the kernels run over all pairs of blocks:
// what of a product's operands is too large for half of inner_M is read again for every panel of
// lanes. 0 where M is the inner level's.
double inner_words_of_rows(const LayerShape& shape, const Variant& variant, const Blocks& blocks,
                           const FastMemory& memory);
double inner_words_of_keys(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                           const FastMemory& memory, const TileShape& tile);
double inner_words_of_tiles(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                            const FastMemory& memory, const TileShape& tile);
double inner_words_of_tiles(const LayerShape& shape, const Blocks& blocks, const FastMemory& memory,
                            const TileShape& tile);  // forward

}  // namespace ioattn::plan
