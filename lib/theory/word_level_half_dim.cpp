#include <algorithm>

#include "theory/word_level_products.hpp"

namespace ioattn::theory::word_level {

Cost half_dim_backward(const LayerShape& shape, index_t M, Form form) {
  const index_t n = shape.n, m = shape.m, d = shape.d;
  const index_t first = d / 2, second = d - first;
  if (first == 0) return std::nullopt;
  const Cost q = stored_q(shape, M, form);
  const ThinProducts thin(shape, M);
  const std::optional<index_t> scores = kept_rows_reads(n, first, m, M);
  // Rows of the second halves of S and U, and LSE, delta, p; rows of the first half of U, and p.
  const index_t rows = std::min(n, (M - second - 1) / (2 * second + 3));
  const index_t u_rows = std::min(n, (M - first - 1) / (first + 1));
  if (!q || !thin.s || !thin.dx || !scores || rows < 1 || u_rows < 1) return std::nullopt;
  Words words = *q;
  words.reads += *thin.s + *scores + n * second + 2 * n + ceil_div(n, rows) * m * second +
                 2 * n * m + ceil_div(n, u_rows) * m * first + n * m + *thin.dx;
  words.writes += n * d + 2 * n * m + n * d + d * d;  // S, first scores and p, U
  return words;
}

}  // namespace ioattn::theory::word_level
