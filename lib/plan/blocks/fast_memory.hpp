#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "plan/handicaps.hpp"
#include "plan/objective.hpp"

namespace ioattn::plan {

// What blocks have to fit: M words. Where these are an outer cache's, because blocks that fit the
// inner one are too short for fast kernels, its words count besides; else inner_M is 0.
struct FastMemory {
  index_t M = 0;
  index_t inner_M = 0;
  Price price;
  index_t operand_bytes = 4;  // of an element in slow memory

  FastMemory(index_t words, index_t inner_words = 0, const Price& of_words = {},  // NOLINT
             index_t bytes = 4)
      : M(words), inner_M(inner_words), price(of_words), operand_bytes(bytes) {}
  bool is_outer() const { return inner_M > 0; }
  FastMemory of_time() const { return {M, inner_M, price.of_time(), operand_bytes}; }
};

// Of the cache of which M is three quarters (machine::fast_memory; of L1 half).
constexpr index_t cache_words(index_t M) { return 4 * M / 3; }

// A time as it counts where levels compete.
inline double handicapped(double time, const FastMemory& memory, double part = handicap::outer) {
  return memory.is_outer() ? time / part : time;
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
