#include "theory/word_level_products.hpp"

#include <algorithm>

#include "theory/block_costs.hpp"

namespace ioattn::theory::word_level {

std::optional<index_t> least_product_reads(index_t n1, index_t k, index_t n2, index_t M,
                                           index_t row_words) {
  std::optional<index_t> best;
  const auto visit = [&](index_t cols) {
    const index_t rows = std::min(n1, (M - 1) / (cols + 1 + row_words));
    if (rows >= 1) keep_least(&best, product_reads(n1, k, n2, rows, cols));
  };
  for_each_tile_width(n2, visit);
  visit(1);
  return best;
}

std::optional<index_t> kept_rows_reads(index_t n1, index_t k, index_t n2, index_t M) {
  const index_t rows = (M - 1) / (k + 1);
  if (rows < 1) return std::nullopt;
  return n1 * k + ceil_div(n1, rows) * k * n2;
}

ThinProducts::ThinProducts(const LayerShape& shape, index_t M)
    : s(least_product_reads(shape.n, shape.d, shape.d, M)),
      g(least_product_reads(shape.n, shape.dv, shape.d, M)),
      h(least_product_reads(shape.m, shape.d, shape.dv, M)),
      dx(least_product_reads(shape.d, shape.n, shape.d, M)) {}

Cost stored_q(const LayerShape& shape, index_t M, Form form) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = form == Form::h;
  const index_t terms = h_form ? e : d;
  const std::optional<index_t> values =
      h_form ? least_product_reads(m, d, e, M) : least_product_reads(n, e, d, M);
  std::optional<index_t> q = least_product_reads(n, terms, m, M);
  if (!values || !q) return std::nullopt;
  if (const std::optional<index_t> kept = kept_rows_reads(n, terms, m, M)) keep_least(&q, *kept);
  return Words{2 * n * e + *values + *q, n + (h_form ? m * e : n * d) + n * m};
}

}  // namespace ioattn::theory::word_level
