#include "theory/word_level.hpp"

#include <algorithm>
#include <cmath>

#include "theory/block_costs.hpp"
#include "theory/schedule_cost.hpp"
#include "theory/word_level_products.hpp"

namespace ioattn::theory::word_level {
namespace {

// Reads of two tiles of S A2^T and G A2^T side by side that share the stream of A2:
// 2 rows cols + cols + 2 rows + 1 <= M.
std::optional<index_t> least_twin_reads(index_t n, index_t d, index_t m, index_t M) {
  std::optional<index_t> best;
  const auto visit = [&](index_t cols) {
    const index_t rows = std::min(n, (M - 1 - cols) / (2 * cols + 2));
    if (rows < 1) return;
    keep_least(&best, d * (2 * n * ceil_div(m, cols) + m * ceil_div(n, rows)));
  };
  for_each_tile_width(m, visit);
  if (!best) visit(1);
  return best;
}

Words words_of(const IoCost& cost) { return {cost.reads, cost.writes}; }

// floor(sqrt(M / 4)), exact below 2^54 words.
index_t paper_block(index_t M) {
  const index_t quarter = M / 4;
  return index_t(std::sqrt(double(quarter)));
}

Blocks square_blocks(index_t b) {
  Blocks blocks;
  blocks.r = blocks.c = b;
  return blocks;
}

Blocks large_blocks(const LayerShape& shape, index_t b, Caps caps) {
  const index_t capped = std::min(b, shape.d);
  Blocks blocks;
  blocks.r = caps == Caps::swapped ? b : capped;
  blocks.c = caps == Caps::swapped ? capped : b;
  return blocks;
}

// What cost(b) says of the largest block size b that fits.
template <class CostOf>
Cost with_largest_block(const LayerShape& shape, index_t M, const CostOf& cost) {
  index_t fits = 0, too_large = std::max(shape.n, shape.m) + 1;
  while (too_large - fits > 1) {
    const index_t b = fits + (too_large - fits) / 2;
    (cost(b).footprint <= M ? fits : too_large) = b;
  }
  return fits > 0 ? Cost(words_of(cost(fits))) : std::nullopt;
}

}  // namespace

Cost naive_backward(const LayerShape& shape, index_t M) {
  const IoCost cost = theory::naive_backward(shape).total();
  return cost.footprint <= M ? Cost(words_of(cost)) : std::nullopt;
}

Cost paper_small_backward(const LayerShape& shape, index_t M) {
  const index_t b = paper_block(M);
  if (b < 1) return std::nullopt;
  return words_of(theory::paper_small_backward(shape, square_blocks(b)).total());
}

Cost paper_small_forward(const LayerShape& shape, index_t M) {
  const index_t b = paper_block(M);
  if (b < 1 || 3 * b * b + 2 * b > M) return std::nullopt;
  return words_of(theory::paper_small_forward(shape, square_blocks(b)).total());
}

Words paper_large_backward_nominal(const LayerShape& shape, index_t M) {
  const Blocks blocks = large_blocks(shape, ceil_div(M, 4 * shape.d), Caps::as_printed);
  return words_of(theory::paper_large_backward(shape, blocks).total());
}

Cost paper_large_backward(const LayerShape& shape, index_t M, Caps caps) {
  return with_largest_block(shape, M, [&](index_t b) {
    return theory::paper_large_backward(shape, large_blocks(shape, b, caps)).total();
  });
}

Cost paper_large_forward(const LayerShape& shape, index_t M) {
  return with_largest_block(shape, M, [&](index_t b) {
    return theory::paper_large_forward(shape, square_blocks(b)).total();
  });
}

Cost row_stream_backward(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool tied = tie != Tie::none;
  const index_t key = tied ? d : d + 1;  // a row of A2 stays for U, a word of A3 passes by
  // Rows of S, G, U and LSE, delta, f, q.
  const index_t rows = std::min(n, (M - key) / (3 * d + 4));
  if (rows < 1) return std::nullopt;
  const index_t keys = (tied ? 1 : 2) * m * d;
  Cost best;

  const index_t rows_of_projection = (M - 1) / (2 * d + e + 1);  // S, dO, G, delta
  const index_t fused_rows = std::min(rows, rows_of_projection);
  if (fused_rows >= 1) {
    const index_t passes = ceil_div(n, fused_rows);
    const index_t thin = d * d + d * e + d * d;  // X, Y, dX
    keep_least(&best, {2 * n * d + 2 * n * e + n + passes * (keys + thin) - d * d, passes * d * d});
  }
  const ThinProducts thin(shape, M);
  if (thin.s && thin.g && thin.dx) {
    const index_t streamed = 2 * n * d + 2 * n * e + n + ceil_div(n, rows) * keys;
    keep_least(&best, {*thin.s + *thin.g + streamed + *thin.dx, 3 * n * d + d * d});
  }
  return best;
}

Cost row_stream_forward(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool tied = tie != Tie::none;
  const index_t streaming = (M - (tied ? d : 1)) / (2 * d + 3);  // S, Z, maximum, sum, f
  const index_t projecting = (M - 1) / (d + e + 2);              // Z, O, maximum, sum
  const index_t rows = std::min({n, streaming, projecting});
  if (rows < 1) return std::nullopt;
  const index_t passes = ceil_div(n, rows);
  return Words{n * d + passes * ((tied ? 1 : 2) * m * d + d * d + d * e), n * e + n};
}

Cost resident_backward(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const index_t a1 = tie == Tie::all ? 0 : d;  // a row of A1 is one of A2
  const index_t rows = m * d + m * e + 2 * d * d + std::max(a1 + d + m, a1 + e + 2 * m);
  const index_t values = m * e + d * e + (tie == Tie::none ? d : m * d);
  if (M < std::max(rows, values)) return std::nullopt;
  return Words{n * (a1 + e) + (tie == Tie::none ? 2 : 1) * m * d + d * d + d * e, d * d};
}

Cost stationary_backward(const LayerShape& shape, index_t M, Form form) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = form == Form::h;
  const ThinProducts thin(shape, M);
  const std::optional<index_t> values = h_form ? thin.h : thin.g;
  const std::optional<index_t> u = least_product_reads(n, m, d, M);
  if (!thin.s || !values || !u || !thin.dx) return std::nullopt;
  Words words;
  words.reads = 2 * n * e + *thin.s + *values + 2 * n + *u + *thin.dx;          // 2 n: LSE, delta
  words.writes = n + n * d + (h_form ? m * e : n * d) + n * m + n * d + d * d;  // n m: p
  if (tie != Tie::none && !h_form) {
    const std::optional<index_t> scores = least_twin_reads(n, d, m, M);
    if (!scores) return std::nullopt;
    words.reads += *scores;
    return words;
  }
  const std::optional<index_t> f = least_product_reads(n, d, m, M, 1);
  const std::optional<index_t> q = least_product_reads(n, h_form ? e : d, m, M, 1);
  if (!f || !q) return std::nullopt;
  words.reads += *f + *q + n * m;
  words.writes += n * m;
  return words;
}

Cost stationary_forward(const LayerShape& shape, index_t M, Form form) {
  const auto [n, m, d, e, tie, mask] = shape;
  const std::optional<index_t> s = least_product_reads(n, d, d, M);
  const std::optional<index_t> scores = least_product_reads(n, d, m, M, 2);  // maximum and sum
  const bool h_form = form == Form::h;
  // O = (f A3) Y or O = f (A3 Y); f is recomputed from scores and LSE when it is read.
  const std::optional<index_t> thin =
      h_form ? least_product_reads(m, d, e, M) : least_product_reads(n, d, e, M);
  const std::optional<index_t> sum = least_product_reads(n, m, h_form ? e : d, M, 1);
  if (!s || !scores || !thin || !sum) return std::nullopt;
  return Words{*s + *thin + *scores + *sum + n,
               n * d + (h_form ? m * e : n * d) + n * e + n * m + n};
}

Cost score_stored_forward(const LayerShape& shape, index_t M, Form form) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool h_form = form == Form::h;
  const index_t width = h_form ? e : d;
  const std::optional<index_t> s = least_product_reads(n, d, d, M);
  const std::optional<index_t> thin =
      h_form ? least_product_reads(m, d, e, M) : least_product_reads(n, d, e, M);
  // S, a column of scores, maximum and sum per row, a word of A2; Z and LSE per row, a row of
  // values, a score
  const index_t scoring = std::min(n, (M - 1) / (d + 3));
  const index_t summing = std::min(n, (M - width - 1) / (width + 1));
  if (!s || !thin || scoring < 1 || summing < 1) return std::nullopt;
  return Words{*s + *thin + n * d + ceil_div(n, scoring) * m * d + n + n * m +
                   ceil_div(n, summing) * m * width,
               n * d + (h_form ? m * e : n * d) + n * m + n + n * e};
}

Cost tile_fused_backward(const LayerShape& shape, index_t M, ScoreTile score_tile) {
  const index_t n = shape.n, m = shape.m, d = shape.d;
  const bool parked = score_tile == ScoreTile::parked;
  const index_t tiles = parked ? 1 : 2;
  const ThinProducts thin(shape, M);
  if (!thin.s || !thin.g || !thin.dx) return std::nullopt;
  Cost best;
  const auto visit = [&](index_t cols) {
    // tiles rows cols + 2 rows + max(rows, cols) + 1 <= M
    index_t rows = (M - 1 - cols) / (tiles * cols + 2);
    if (rows > cols) rows = (M - 1) / (tiles * cols + 3);
    rows = std::min(rows, n);
    if (rows < 1) return;
    const index_t down = ceil_div(n, rows), across = ceil_div(m, cols);
    const index_t spilled = parked ? n * m : 0;
    const index_t scores = 2 * d * (n * across + m * down);
    const index_t u = m * d * down + n * d * (across - 1);
    keep_least(&best, {2 * n + scores + u + spilled, n * d * across + spilled});
  };
  for_each_tile_width(m, visit);
  if (!best) visit(1);
  if (!best) return std::nullopt;
  best->reads += 2 * n * shape.dv + *thin.s + *thin.g + *thin.dx;
  best->writes += n + 2 * n * d + d * d;
  return best;
}

Cost tile_fused_forward(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const std::optional<index_t> s = least_product_reads(n, d, d, M);
  const std::optional<index_t> h = least_product_reads(m, d, e, M);
  if (!s || !h) return std::nullopt;
  Cost best;
  const auto visit = [&, n = n, m = m, d = d, e = e](index_t cols) {
    // rows cols + 3 rows + cols + 1 <= M: maximum and sum, a word of S or O; one of h or A2
    const index_t rows = std::min((M - 1 - cols) / (cols + 3), n);
    if (rows < 1) return;
    const index_t down = ceil_div(n, rows), across = ceil_div(m, cols);
    keep_least(&best, {(n * across + m * down) * d + m * e * down + n * e * (across - 1),
                       n * e * across + n});
  };
  for_each_tile_width(m, visit);
  if (!best) visit(1);
  if (!best) return std::nullopt;
  best->reads += *s + *h;
  best->writes += n * d + m * e;
  return best;
}

}  // namespace ioattn::theory::word_level
