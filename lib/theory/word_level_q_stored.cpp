#include <algorithm>

#include "theory/word_level_products.hpp"

namespace ioattn::theory::word_level {

Cost q_stored_backward(const LayerShape& shape, index_t M, Form form) {
  const index_t n = shape.n, m = shape.m, d = shape.d;
  // Rows of S, U and LSE, delta, p; a row of A2 and a word of q.
  const index_t rows = std::min(n, (M - d - 1) / (2 * d + 3));
  const Cost q = stored_q(shape, M, form);
  if (!q || rows < 1) return std::nullopt;
  const index_t passes = ceil_div(n, rows);
  const auto with = [&](index_t reads, index_t writes) {
    return Words{q->reads + 2 * n + n * m + passes * m * d + reads, q->writes + writes};
  };
  // X and dX once per row block, or S and U through memory.
  Cost best = with(2 * n * d + (2 * passes - 1) * d * d, passes * d * d);
  const ThinProducts thin(shape, M);
  if (thin.s && thin.dx) keep_least(&best, with(*thin.s + n * d + *thin.dx, 2 * n * d + d * d));
  return best;
}

}  // namespace ioattn::theory::word_level
