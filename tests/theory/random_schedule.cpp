#include "theory/random_schedule.hpp"

#include <algorithm>
#include <map>

namespace ioattn_test {

using ioattn::LayerShape;
using ioattn::Tie;

void RandomSchedule::begin() {
  streams_ = below(2) == 0;
  keeps_most_ = streams_ && below(2) == 0;
  by_pairs_ = below(2) == 0;
  trace_.clear();
  families_.clear();
  in_memory_.clear();
  output_.clear();
}

RandomSchedule::Matrix RandomSchedule::matrix(index_t rows, index_t cols, bool in_memory,
                                              bool output) {
  const Matrix result = {int(in_memory_.size()), cols};
  in_memory_.resize(in_memory_.size() + std::size_t(rows * cols), in_memory);
  output_.resize(in_memory_.size(), output);
  return result;
}

// A product of its own, in blocks of rows.
void RandomSchedule::product(const Matrix& c, const Matrix& a, const Matrix& b, index_t rows,
                             index_t inner, index_t cols, bool b_transposed) {
  const index_t r = between(1, rows);
  for (index_t i0 = 0; i0 < rows; i0 += r) {
    for (index_t l = 0; l < inner; ++l) {
      for (index_t k = 0; k < cols; ++k) {
        for (index_t i = i0; i < std::min(i0 + r, rows); ++i) {
          trace_.push_back({c.at(i, k), a.at(i, l), b_transposed ? b.at(k, l) : b.at(l, k)});
        }
      }
    }
  }
}

// The family in one or two slices of its width, each in a pass of its own from first_pass on.
void RandomSchedule::add_slices(Family family, int first_pass, int last_pass) {
  const index_t cut = streams_ || below(2) == 0 ? 0 : below(family.width);
  family.pass = int(between(first_pass, last_pass));
  family.first = cut;
  families_.push_back(family);
  if (cut == 0) return;
  family.width = cut;
  family.first = 0;
  family.pass = int(between(first_pass, last_pass));
  families_.push_back(family);
}

void RandomSchedule::emit(const Family& family, index_t i0, index_t i1, index_t j0, index_t j1,
                          const LayerShape& shape, int order) {
  const auto one = [&](index_t i, index_t j, index_t k) {
    const auto seen = shape.mask.of_row(i, shape.m);
    if (j < seen.begin || j >= seen.end) return;
    const int row = family.of_rows.at(i, k), column = family.of_columns.at(j, k);
    const int pair = family.pairs.at(i, j);
    switch (family.kind) {
      case Kind::score: trace_.push_back({pair, row, column}); break;
      case Kind::row_sum: trace_.push_back({row, pair, column}); break;
      case Kind::column_sum: trace_.push_back({column, pair, row}); break;
    }
  };
  const index_t k0 = family.first, k1 = family.width;
  if (order == 0) {
    for (index_t k = k0; k < k1; ++k) {
      for (index_t j = j0; j < j1; ++j) {
        for (index_t i = i0; i < i1; ++i) one(i, j, k);
      }
    }
  } else if (order == 1) {
    for (index_t j = j0; j < j1; ++j) {
      for (index_t k = k0; k < k1; ++k) {
        for (index_t i = i0; i < i1; ++i) one(i, j, k);
      }
    }
  } else {
    for (index_t i = i0; i < i1; ++i) {
      for (index_t j = j0; j < j1; ++j) {
        for (index_t k = k0; k < k1; ++k) one(i, j, k);
      }
    }
  }
}

// How many rows (or columns) fit with what one pair needs of the other side.
index_t RandomSchedule::most_kept(bool rows, index_t M) const {
  std::map<int, index_t> kept, streamed;  // by matrix
  for (const Family& family : families_) {
    kept[rows ? family.of_rows.first : family.of_columns.first] = family.width;
    streamed[rows ? family.of_columns.first : family.of_rows.first] = family.width;
  }
  index_t each = 0, beside = 2;  // a score and a gradient of it
  for (const auto& [first, width] : kept) each += width;
  for (const auto& [first, width] : streamed) beside += width;
  return std::max<index_t>(1, (M - beside) / each);
}

// Each pass goes over all pairs in blocks; in p_pass p takes q's place (p = f o (q - delta)). What
// comes before and after a block of rows is done for each where rows are kept, else for all.
void RandomSchedule::run_passes(const LayerShape& shape, index_t M, int passes, int p_pass,
                                const Matrix& scores, const Matrix& q, const OfRows& before,
                                const OfRows& after) {
  const index_t n = shape.n, m = shape.m;
  const bool rows_alone = streams_ && below(2) == 0;
  if (before && !rows_alone) before(0, n);
  for (int pass = 0; pass < passes; ++pass) {
    const index_t rows_that_fit = between(1, 3) * M / (between(1, 4) * shape.d) + 1;
    index_t r = std::min(n, between(1, std::max<index_t>(1, rows_that_fit)));
    index_t c = below(3) == 0 ? 1 : between(1, std::max<index_t>(1, std::min(m, M / r)));
    const bool by_rows = rows_alone || (!streams_ && below(2) == 0);
    const bool snake = below(2) == 0;
    if (streams_) {
      const index_t kept =
          keeps_most_ ? most_kept(by_rows, M) : std::max<index_t>(1, M / (between(2, 5) * shape.d));
      r = by_rows ? std::min(n, kept) : 1;
      c = by_rows ? 1 : std::min(m, kept);
    }
    const int order = int(below(3));
    const index_t outer = by_rows ? n : m, outer_step = by_rows ? r : c;
    const index_t inner = by_rows ? m : n, inner_step = by_rows ? c : r;
    const auto emit_block = [&](index_t i0, index_t i1, index_t j0, index_t j1) {
      const auto emit_all = [&](bool scores_first) {
        for (const Family& family : families_) {
          const bool is_score = family.kind == Kind::score;
          if (family.pass == pass && is_score == scores_first) {
            emit(family, i0, i1, j0, j1, shape, order);
          }
        }
      };
      emit_all(true);
      if (pass == p_pass) {
        for (index_t i = i0; i < i1; ++i) {
          const auto seen = shape.mask.of_row(i, m);
          for (index_t j = std::max(j0, seen.begin); j < std::min(j1, seen.end); ++j) {
            trace_.push_back({q.at(i, j), scores.at(i, j), scores.at(i, j)});
          }
        }
      }
      emit_all(false);
    };
    bool back = false;
    for (index_t a = 0; a < outer; a += outer_step) {
      const index_t a1 = std::min(a + outer_step, outer);
      if (before && rows_alone) before(a, a1);
      const index_t blocks = ioattn::ceil_div(inner, inner_step);
      for (index_t step = 0; step < blocks; ++step) {
        const index_t b = (back ? blocks - 1 - step : step) * inner_step;
        const index_t i0 = by_rows ? a : b, j0 = by_rows ? b : a;
        const index_t i1 = std::min(i0 + r, n), j1 = std::min(j0 + c, m);
        if (!by_pairs_) {
          emit_block(i0, i1, j0, j1);
          continue;
        }
        for (index_t j = j0; j < j1; ++j) {
          for (index_t i = i0; i < i1; ++i) emit_block(i, i + 1, j, j + 1);
        }
      }
      if (after && rows_alone) after(a, a1);
      back = snake && !back;
    }
  }
  if (after && !rows_alone) after(0, n);
}

Moved RandomSchedule::layer(const LayerShape& shape, index_t M) {
  begin();
  return run_layer(shape, M);
}

Moved RandomSchedule::streamed_layer(const LayerShape& shape, index_t M) {
  begin();
  streams_ = keeps_most_ = by_pairs_ = true;
  return run_layer(shape, M);
}

Moved RandomSchedule::run_layer(const LayerShape& shape, index_t M) {
  const auto [n, m, d, e, tie, mask] = shape;
  const Matrix a1 = matrix(n, d, true, false);
  const Matrix a2 = tie == Tie::all ? a1 : matrix(m, d, true, false);
  const Matrix a3 = tie == Tie::none ? matrix(m, d, true, false) : a2;
  const Matrix x = matrix(d, d, true, false), y = matrix(d, e, true, false);
  const Matrix d_o = matrix(n, e, true, false);
  const Matrix s = matrix(n, d, false, false), u = matrix(n, d, false, false);
  const Matrix scores = matrix(n, m, false, false), q = matrix(n, m, false, false);
  const Matrix dx = matrix(d, d, false, true);
  const bool h_form = below(2) == 0;
  Family of_q = {Kind::score, {}, {}, q, h_form ? e : d};
  if (h_form) {
    of_q.of_rows = d_o;
    of_q.of_columns = matrix(m, e, false, false);
    product(of_q.of_columns, a3, y, m, d, e, false);
  } else {
    of_q.of_rows = matrix(n, d, false, false);
    of_q.of_columns = a3;
  }
  const int p_pass = streams_ ? 0 : int(below(3));
  const int passes = p_pass + 1 + (streams_ ? 0 : int(below(2)));
  add_slices({Kind::score, s, a2, scores, d}, 0, p_pass);
  add_slices(of_q, 0, p_pass);
  add_slices({Kind::row_sum, u, a2, q, d}, p_pass, passes - 1);
  const auto from_row = [](Matrix matrix, index_t i) {
    matrix.first = matrix.at(i, 0);
    return matrix;
  };
  const auto before = [&, of_rows = of_q.of_rows, width = d, inner = e](index_t i0, index_t i1) {
    product(from_row(s, i0), from_row(a1, i0), x, i1 - i0, width, width, false);
    if (h_form) return;
    product(from_row(of_rows, i0), from_row(d_o, i0), y, i1 - i0, inner, width, true);
  };
  const auto after = [&, width = d](index_t i0, index_t i1) {
    for (index_t k = 0; k < width; ++k) {
      for (index_t l = 0; l < width; ++l) {
        for (index_t i = i0; i < i1; ++i) trace_.push_back({dx.at(k, l), a1.at(i, k), u.at(i, l)});
      }
    }
  };
  run_passes(shape, M, passes, p_pass, scores, q, before, after);
  return moved_by_farthest_use(trace_, in_memory_, output_, M);
}

Moved RandomSchedule::sdpa_forward(const LayerShape& head, index_t M) {
  begin();
  const auto [n, m, d, e, tie, mask] = head;
  const Matrix q = matrix(n, d, true, false), k = matrix(m, d, true, false);
  const Matrix v = matrix(m, e, true, false), o = matrix(n, e, false, true);
  const Matrix scores = matrix(n, m, false, false);
  const int score_pass = streams_ ? 0 : int(below(2));
  const int passes = score_pass + 1 + (streams_ ? 0 : int(below(2)));
  add_slices({Kind::score, q, k, scores, d}, 0, score_pass);
  add_slices({Kind::row_sum, o, v, scores, e}, score_pass, passes - 1);
  run_passes(head, M, passes, -1, scores, scores);
  return moved_by_farthest_use(trace_, in_memory_, output_, M);
}

Moved RandomSchedule::sdpa_backward(const LayerShape& head, const ioattn::SdpaSet& set, index_t M,
                                    bool one_sum) {
  begin();
  const auto [n, m, d, e, tie, mask] = head;
  const Matrix q = matrix(n, d, true, false), k = matrix(m, d, true, false);
  const Matrix v = tie == Tie::none ? matrix(m, e, true, false) : k;
  const Matrix d_o = matrix(n, e, true, false);
  const Matrix scores = matrix(n, m, false, false), gradient = matrix(n, m, false, false);
  const int p_pass = streams_ ? 0 : int(below(3));
  const int passes = p_pass + 1 + (streams_ ? 0 : int(below(2)));
  add_slices({Kind::score, q, k, scores, d}, 0, p_pass);
  if (set.delta()) add_slices({Kind::score, d_o, v, gradient, e}, 0, p_pass);
  if (set.dQ) {
    add_slices({Kind::row_sum, matrix(n, d, false, true), k, gradient, d}, p_pass, passes - 1);
  }
  Matrix sums;
  if (set.dK) {
    sums = matrix(m, d, false, true);
    add_slices({Kind::column_sum, q, sums, gradient, d}, p_pass, passes - 1);
  }
  if (set.dV) {
    if (!one_sum) sums = matrix(m, e, false, true);
    add_slices({Kind::column_sum, d_o, sums, scores, e}, p_pass, passes - 1);
  }
  run_passes(head, M, passes, set.delta() ? p_pass : -1, scores, gradient);
  return moved_by_farthest_use(trace_, in_memory_, output_, M);
}

}  // namespace ioattn_test
