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

// Blocks of the thin products of a backward pass in the form of `blocks`, each a phase of its own
// with M words, and rows of O and dO for delta.
void choose_thin_products(const LayerShape& shape, const ThinNeeds& needs, index_t M,
                          const Price& price, const TileShape& tile, Blocks* blocks);

}  // namespace ioattn::plan
