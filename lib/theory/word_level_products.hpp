#pragma once

#include <optional>

#include "theory/word_level.hpp"

// Products at word level, of which schedules are made.
namespace ioattn::theory::word_level {

// Calls visit(c) for the widths c = ceil(columns / k) of k equal tiles: every k up to 600, then in
// steps of 2%, which costs less than 1% and bounds the search. 1, for which alone the least M has
// room, may not be among them.
template <class Visit>
void for_each_tile_width(index_t columns, Visit visit) {
  for (index_t k = 1; k <= columns; k = k < 600 ? k + 1 : index_t(double(k) * 1.02) + 1) {
    visit(ceil_div(columns, k));
  }
}

inline void keep_least(std::optional<index_t>* best, index_t value) {
  if (!best->has_value() || value < **best) *best = value;
}
inline void keep_least(Cost* best, const Words& words) {
  if (!best->has_value() || words.total() < (*best)->total()) *best = words;
}

// Reads of C[n1 x n2] = A[n1 x k] B[k x n2] with one tile rows x cols of C resident, a column of A
// and a word of B passing by, and row_words further words per row: rows cols + rows (1 + row_words)
// + 1 <= M.
std::optional<index_t> least_product_reads(index_t n1, index_t k, index_t n2, index_t M,
                                           index_t row_words = 0);

// The same with whole rows of A resident, a column of C and a word of B passing by.
std::optional<index_t> kept_rows_reads(index_t n1, index_t k, index_t n2, index_t M);

// The thin products around the n x m ones, each C-stationary.
struct ThinProducts {
  std::optional<index_t> s, g, h, dx;  // reads of S = A1 X, G = dO Y^T, h = A3 Y, dX = A1^T U

  ThinProducts(const LayerShape& shape, index_t M);
};

// q = G A3^T or dO h^T through memory with all that it takes: delta, G or h, and q, C-stationary or
// with whole rows kept.
Cost stored_q(const LayerShape& shape, index_t M, Form form);

}  // namespace ioattn::theory::word_level
