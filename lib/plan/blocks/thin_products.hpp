#pragma once

#include "base/isa.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "plan/objective.hpp"

namespace ioattn::plan {

// Which of the products around the scores of a backward pass there are, beside S and delta.
struct ThinNeeds {
  bool values = true;  // h; G of the g-form there always is
  bool dx = true;
};

// o and w alone, of rows of O and dO that phase "delta" reads: columns first, so that sums are
// long. M is at least 3.
Blocks choose_delta_blocks(const LayerShape& shape, index_t M);

// Blocks of the thin products of a backward pass in the form of `blocks`, each a phase of its own
// with M words, and rows of O and dO for delta.
void choose_thin_products(const LayerShape& shape, const ThinNeeds& needs, index_t M,
                          const Price& price, const TileShape& tile, Blocks* blocks);

}  // namespace ioattn::plan
