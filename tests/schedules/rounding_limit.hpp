#pragma once

#include <algorithm>

#include "base/schedule.hpp"
#include "reference/gauge.hpp"

namespace ioattn_test {

// Short blocks of long sums, which a small M dictates, are granted their longer chains of
// additions.
inline double limit(ioattn::index_t terms, ioattn::index_t block) {
  block = std::min(block, terms);
  return block >= 32 || terms <= 32 ? ioattn_reference::pass_ratio
                                    : ioattn_reference::pass_limit(static_cast<std::size_t>(terms),
                                                                   static_cast<std::size_t>(block));
}

// Of a product whose sums have `terms` terms.
inline double limit(ioattn::index_t terms, const ioattn::ProductBlocks& product) {
  return limit(terms, product.depth);
}

}  // namespace ioattn_test
