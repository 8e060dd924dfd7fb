#pragma once

#include <cmath>

#include "base/matrix_view.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/keys/col_stream.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// A power of 2 by which products are exact, but for numbers next to the least: none above 1, by
// which q - delta might overflow where its products with f do not.
template <class T>
bool scales_exactly(T x) {
  constexpr int least = -31;
  int exponent = 0;
  return std::abs(std::frexp(x, &exponent)) == T(0.5) && least <= exponent && exponent <= 1;
}

// One block of keys in the hands of a worker.
template <class S, class P>
struct ColStream<S, P>::Run {
  const ColStream& pass;
  const kernels::KernelTable<T>& kernels;
  const Trace& trace;
  const Operands& operands;
  index_t problem, turn;
  void* workspace;
  void* memory;  // of the worker
  Range keys;
  const bool of_keys = pass.kind_.of_keys();
  const bool of_values = pass.kind_.of_values();
  const bool summed = pass.kind_.is_sum();
  // Products are scaled where they have the bits of those with scaled rows, which other passes
  // have: rows of queries then are read where they lie, if they can be. It does not depend on where
  // that is, because next to the least number bits differ.
  const bool scales_products =
      !pass.copies_queries_ || (operands.bias.data == nullptr && scales_exactly(operands.scale));
  const bool in_place = !pass.copies_queries_ || (are_queries_lanes() && scales_products);
  const T scale_of_rows = scales_products ? T(1) : operands.scale;
  const T scale_of_products = scales_products ? operands.scale : T(1);
  T* const key_panels = pass.worker_.keys.in(memory);
  T* const value_panels = pass.shared_ ? key_panels : pass.worker_.values.in(memory);
  T* const tile = pass.worker_.tile.in(memory);  // [query][key], f and then p
  // Of these keys, while terms are added.
  const MatrixView<T> d_keys =
      sums_in(pass.worker_.d_keys, pass.d_, pass.s_stride_, operands.d_keys);
  const MatrixView<T> d_values =
      sums_in(pass.worker_.d_values, pass.v_, pass.d_o_stride_, operands.d_values);

  bool are_queries_lanes() const {
    const MatrixView<const P>& rows = operands.queries;
    if constexpr (is_half_storage<P>) {  // are copied, scaled or not
      return are_panels<T>(rows.stride, pass.d_, pass.nr_);
    } else {
      const bool are_first_heads = are_lanes(rows.data, rows.stride, pass.d_, pass.nr_);
      return are_first_heads && begin_lines(rows.data + operands.queries_step, rows.stride);
    }
  }
  MatrixView<T> sums_in(const Slot<T>& own, index_t cols, index_t stride,
                        const MatrixView<T>& all) const {
    if (pass.rounds_) return {own.in(memory), keys.size(), cols, stride};
    return {all.data != nullptr ? all.row(keys.begin) : nullptr, keys.size(), all.cols, all.stride};
  }
  bool reads_values() const { return pass.kind_.makes_p() && !pass.shared_; }

  // col_stream_keys.cpp: what stays.
  void stream_queries() const;
  void bring_keys() const;
  void begin_sums(const Block& block, const MatrixView<T>& sums,
                  const MatrixView<S>& rounded) const;
  void end_sums(const Block& block, const MatrixView<T>& sums, const MatrixView<S>& rounded) const;
  Block key_block() const { return rows_of(Operand::A2, keys, pass.d_); }
  Block rows_of_keys() const { return rows_of(Operand::A2_rows, keys, pass.d_); }
  Block value_block() const {
    return rows_of(pass.g_form_ ? Operand::A3 : Operand::h, keys, pass.v_);
  }
  Block key_sums() const { return rows_of(operands.d_keys_name, keys, pass.d_); }
  Block value_sums() const {
    return rows_of(pass.g_form_ ? Operand::dA3 : Operand::W, keys, pass.v_);
  }

  // col_stream_queries.cpp: what streams.
  void add_queries(index_t head, const Range& rows, const Range& next_rows) const;
  MatrixView<const T> padded_s(index_t head, const Range& rows) const;
  MatrixView<const T> padded_d_o(index_t head, const Range& rows) const;
  MatrixView<const T> rows_of_s(index_t head, const Range& rows) const;
  void load_bias_of(index_t head, const Range& rows) const;
  void score(const MatrixView<const T>& queries, const T* panels, const Range& rows,
             kernels::Epilogue epilogue, const T* shift, const MatrixView<const T>& beside) const;
  void hide_in_tile(const Range& rows) const;
  void add(const MatrixView<const T>& terms, const Range& rows, const MatrixView<T>& sums,
           bool accumulate) const;
  void add_to_queries(index_t head, const Range& rows) const;
};

}  // namespace ioattn::schedules
