#include <algorithm>

#include "theory/word_level.hpp"

namespace ioattn::theory::word_level {

Cost weight_resident_backward(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool tied = tie != Tie::none;
  const index_t value = tied ? 0 : 1;  // a word of A3 passes by
  // X and dX; per row A1, G, LSE, delta and, with a row of A2 beside them, first f and a row of K',
  // then f, q and a word of A3, then p and a row of T. Before: dO, delta, G and a word of Y.
  const index_t left = M - 2 * d * d;
  const index_t rows = std::min({n, (left - 2 * d) / (2 * d + 3), (left - d - value) / (2 * d + 4),
                                 (left - 1) / (d + e + 1)});
  if (rows < 1) return std::nullopt;
  const index_t passes = ceil_div(n, rows);
  const index_t keys = (tied ? 1 : 2) * m * d;
  return Words{d * d + n * d + 2 * n * e + n + passes * (keys + d * e), d * d};
}

}  // namespace ioattn::theory::word_level
