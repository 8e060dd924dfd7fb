#pragma once

#include <algorithm>

#include "instruments/simulators/trace_recorder.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/product_order.hpp"

// What a product touches, tile by tile: the loops of kernels/generic/product_kernel.hpp without the
// arithmetic.
namespace ioattn::instruments {

template <class T, class W = T>
class TracedProduct {
 public:
  TracedProduct(const kernels::Product<T, W>& product, const TileShape& tile,
                TraceRecorder* recorder, T* sums)
      : p_(product),
        tile_(tile),
        nr_(tile.cols),
        most_terms_(product.a.row == 1 ? kernels::terms_at_once<W, T, true>
                                       : kernels::terms_at_once<W, T, false>),
        recorder_(*recorder),
        sums_(sums) {}

  void trace() {
    const index_t depth = p_.depth;
    const kernels::Epilogue epilogue = p_.epilogue;
    if (depth <= most_terms_ || !kernels::adds_blocks_to_c(p_)) {
      panels(0, depth, p_.accumulate);
      return;
    }
    for (index_t q = 0; q < depth; q += most_terms_) {
      p_.epilogue = depth - q > most_terms_ ? kernels::Epilogue::none : epilogue;
      panels(q, std::min(depth, q + most_terms_), p_.accumulate || q > 0);
      p_.row_scale = nullptr;
    }
  }

 private:
  template <class Word>
  void read(const Word* first, index_t count) {
    recorder_.touch(first, static_cast<std::size_t>(count) * sizeof(Word), false);
  }
  void write(const T* first, index_t count) {
    recorder_.touch(first, static_cast<std::size_t>(count) * sizeof(T), true);
  }

  void panels(index_t first, index_t last, bool accumulate) {
    const index_t depth = last - first;
    const bool finishes = (p_.epilogue == kernels::Epilogue::none && depth <= most_terms_) ||
                          (p_.epilogue == kernels::Epilogue::gradient && p_.a.row != 1 &&
                           !accumulate && depth <= kernels::most_terms_at_once<W, T, false>);
    for (index_t col = 0; col < p_.cols; col += nr_) {
      const index_t left = std::min(nr_, p_.cols - col);
      lanes_ = tile_.computed(left);
      rows_of_tile_ = lanes_ < nr_ ? kernels::narrow_rows : tile_.rows;
      if (finishes && (p_.padded || left >= lanes_)) {
        in_registers(col, first, last, accumulate);
      } else {
        by_sums(col, p_.padded ? lanes_ : left, first, last, accumulate);
      }
    }
  }

  // A column of register tiles that become C at once.
  void in_registers(index_t col, index_t first, index_t last, bool accumulate) {
    const bool gradient = p_.epilogue == kernels::Epilogue::gradient;
    for_tiles(0, p_.rows, [&](index_t row, index_t count) {
      terms(col, row, count, first, std::min(last, first + most_terms_));
      if (last - first > most_terms_) {  // two sums, of which the first waits
        write(sums_, count * lanes_);
        terms(col, row, count, first + most_terms_, last);
        read(sums_, count * lanes_);
      }
      if (p_.lane != nullptr && gradient) read(p_.lane + col, lanes_);
      for (index_t i = row; i < row + count; ++i) {
        shifts_of(i, gradient);
        if (accumulate || gradient) read(c_at(i, col), lanes_);
        write(c_at(i, col), lanes_);
      }
    });
  }

  // body(first, count) for the register tiles of some rows: a last tile of too few rows takes some
  // of the one before.
  template <class Body>
  void for_tiles(index_t first, index_t end, const Body& body) const {
    const auto shares = [&](index_t left) {
      return left > 0 && left * lanes_ < kernels::least_rows * nr_;
    };
    for (index_t row = first; row < end;) {
      const index_t left = end - row;
      index_t count = std::min<index_t>(rows_of_tile_, left);
      if (shares(left - rows_of_tile_)) count = (left + 1) / 2;
      body(row, count);
      row += count;
    }
  }

  // A column of tiles whose sums are kept in memory until they are finished.
  void by_sums(index_t col, index_t width, index_t first, index_t last, bool accumulate) {
    const index_t rows_of_sums = kernels::tiles_of_sums * tile_.rows;
    const bool reads_c = accumulate || p_.epilogue == kernels::Epilogue::gradient;
    const bool shifted = p_.epilogue != kernels::Epilogue::none;
    for (index_t row = 0; row < p_.rows; row += rows_of_sums) {
      const index_t end = std::min(p_.rows, row + rows_of_sums);
      for (index_t q = first; q == first || q < last; q += most_terms_) {
        for_tiles(row, end, [&](index_t i, index_t count) {
          terms(col, i, count, q, std::min(last, q + most_terms_));
          write(sums_ + (i - row) * nr_, count * nr_);
        });
      }
      if (shifted && p_.lane != nullptr) read(p_.lane + col, lanes_);
      for (index_t i = row; i < end; ++i) {
        read(sums_ + (i - row) * nr_, lanes_);
        shifts_of(i, shifted);
        if (reads_c) read(c_at(i, col), width);
        write(c_at(i, col), width);
      }
    }
  }

  T* c_at(index_t row, index_t col) const { return p_.c.row_of(col / nr_, row); }
  void shifts_of(index_t row, bool shifted) {
    if (shifted && p_.row != nullptr) read(p_.row + row, 1);
    if (p_.row_scale != nullptr) read(p_.row_scale + row, 1);
  }

  // One register tile: a row of B's panel and the elements of A beside it, term by term.
  void terms(index_t col, index_t row, index_t rows, index_t first, index_t last) {
    const W* b = p_.b.row_of(col / nr_, 0);
    const auto mask = static_cast<std::uintptr_t>(recorder_.line_bytes() - 1);
    for (index_t q = first; q < last; ++q) {
      read(b + q * p_.b.row, lanes_);
      if (p_.a.row == 1) {
        read(p_.a.data + row + q * p_.a.depth, rows);
        continue;
      }
      for (index_t i = row; i < row + rows; ++i) {
        const W* element = p_.a.at(i, q);
        // Adjacent terms lie in one line, which is read as it begins and, as it is not older than
        // the rows of B that came since, as it ends.
        const auto place = reinterpret_cast<std::uintptr_t>(element) & mask;
        const bool begins = place < sizeof(W);
        const bool ends = mask - place < 2 * sizeof(W) - 1;
        if (p_.a.depth != 1 || q == first || q + 1 == last || begins || ends) read(element, 1);
      }
    }
  }

  kernels::Product<T, W> p_;
  TileShape tile_;
  index_t nr_, most_terms_;
  index_t lanes_ = 0, rows_of_tile_ = 0;  // of a tile of the panel at hand
  TraceRecorder& recorder_;
  T* sums_;
};

}  // namespace ioattn::instruments
