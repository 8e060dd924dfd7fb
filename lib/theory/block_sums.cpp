#include "theory/block_sums.hpp"

#include <algorithm>
#include <utility>

namespace ioattn::theory {
namespace {

// Blocks of `height` rows that begin with the rows begin, begin + step, ...
struct Blocks {
  index_t begin, step, count, height;
};

// Sum of floor((a t + b) / c) for t < count, a and b not negative. Euclid's algorithm: points below
// a line, whole multiples taken out, are those left of it with the axes exchanged.
index_t sum_of_quotients(index_t count, index_t a, index_t b, index_t c) {
  index_t sum = 0;
  while (count > 0) {
    sum += count * (count - 1) / 2 * (a / c) + count * (b / c);
    a %= c;
    b %= c;
    const index_t last = a * count + b;
    count = last / c;
    b = last % c;
    std::swap(a, c);
  }
  return sum;
}

// Of the terms first, first + step, ... the sum of floor((x + add) / divisor), where x is the term
// between 0 and most; add < divisor.
index_t sum_of_terms(index_t first, index_t step, index_t count, index_t most, index_t add,
                     index_t divisor) {
  const index_t low = first > 0 ? 0 : std::min(count, -first / step + 1);
  const index_t high = first >= most ? 0 : std::min(count, ceil_div(most - first, step));
  const index_t between = std::max<index_t>(high - low, 0);
  index_t sum = (count - std::max(low, high)) * ((most + add) / divisor);
  if (between > 0) sum += sum_of_quotients(between, step, first + low * step + add, divisor);
  return sum;
}

BlockSums sums_of(const Mask& mask, index_t m, const Blocks& blocks, index_t width) {
  const index_t begin = blocks.begin, step = blocks.step;
  const index_t count = blocks.count, height = blocks.height;
  // Block t sees columns from from + t step on, up to to + t step.
  const index_t from = begin + mask.first, to = begin + height + mask.last;
  if (count < 1 || height < 1 || from >= to) return {};
  const index_t first = to > 0 ? 0 : std::min(count, -to / step + 1);
  const index_t last = from >= m ? 0 : std::min(count, ceil_div(m - from, step));
  if (first >= last) return {};

  const index_t seeing = last - first, skipped = first * step;
  const auto sum = [&](index_t term, index_t add, index_t divisor) {
    return sum_of_terms(term + skipped, step, seeing, m, add, divisor);
  };
  BlockSums sums;
  sums.rows = seeing * height;
  sums.columns = sum(to, 0, 1) - sum(from, 0, 1);
  sums.pairs = height * sums.columns;
  sums.row_tiles = height * (sum(to, width - 1, width) - sum(from, 0, width));
  return sums;
}

}  // namespace

BlockSums& BlockSums::operator+=(const BlockSums& other) {
  rows += other.rows;
  columns += other.columns;
  pairs += other.pairs;
  row_tiles += other.row_tiles;
  return *this;
}

BlockSums block_sums(const Mask& mask, index_t n, index_t m, index_t height, index_t width) {
  return strip_sums(mask, n, m, height, height, width);
}

BlockSums strip_sums(const Mask& mask, index_t n, index_t m, index_t height, index_t strip,
                     index_t width) {
  if (n < 1 || m < 1) return {};
  if (!mask.hides()) {
    const index_t strips = n / height * ceil_div(height, strip) + ceil_div(n % height, strip);
    return {n, strips * m, n * m, n * ceil_div(m, width)};
  }
  // Strips of blocks that are whole ones follow each other evenly. Others do within a block, and
  // side by side from block to block.
  const bool even = height >= n || height % strip == 0;
  const index_t blocks = even ? 0 : n / height, rest = blocks * height;
  const index_t side_by_side = ceil_div(height, strip);
  BlockSums sums;
  if (blocks > side_by_side) {
    for (index_t i = 0; i < height; i += strip)
      sums += sums_of(mask, m, {i, height, blocks, std::min(strip, height - i)}, width);
  } else {
    const index_t whole = height / strip * strip;
    for (index_t i = 0; i < rest; i += height)
      sums += sums_of(mask, m, {i, strip, height / strip, strip}, width);
    sums += sums_of(mask, m, {whole, height, blocks, height - whole}, width);
  }
  const index_t whole = (n - rest) / strip, end = rest + whole * strip;
  sums += sums_of(mask, m, {rest, strip, whole, strip}, width);
  sums += sums_of(mask, m, {end, strip, 1, n - end}, width);
  return sums;
}

}  // namespace ioattn::theory
