#pragma once

#include "base/mask.hpp"

// Sums over blocks of rows and the columns that they see under a mask, without a look at every
// block: a planner compares many sizes of them, and of long sequences there are many of each.
namespace ioattn::theory {

// Over the blocks that see any column.
struct BlockSums {
  index_t rows = 0;
  index_t columns = 0;    // each block's: those that any of its rows sees
  index_t pairs = 0;      // of a row and a column of its block
  index_t row_tiles = 0;  // of a row and a tile of which its block sees any column

  BlockSums& operator+=(const BlockSums& other);
  bool operator==(const BlockSums&) const = default;
};

// n rows in blocks of `height`, m columns in tiles of `width`.
BlockSums block_sums(const Mask& mask, index_t n, index_t m, index_t height, index_t width);

// The same of the strips of `strip` rows into which such blocks are cut, each from its first row
// on.
BlockSums strip_sums(const Mask& mask, index_t n, index_t m, index_t height, index_t strip,
                     index_t width);

}  // namespace ioattn::theory
