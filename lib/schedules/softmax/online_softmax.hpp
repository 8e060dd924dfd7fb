#pragma once

#include <cmath>
#include <limits>

#include "kernels/kernel_table.hpp"
#include "schedules/memory/storage.hpp"

// What the online softmax of rows begins and ends with.
namespace ioattn::schedules {

// Of rows that have seen no key.
template <class T>
void begin_softmax(const kernels::KernelTable<T>& kernels, T* row_max, T* row_sum, index_t count) {
  fill_words(kernels, row_max, count, -std::numeric_limits<T>::infinity());
  fill_words(kernels, row_sum, count, T(0));
}

// What a row of O is multiplied by. A row that sees no key, or scores of -inf alone: O = 0, LSE =
// -inf.
template <class T>
T inverse_sum(T row_sum) {
  return row_sum == T(0) ? T(0) : T(1) / row_sum;
}
// Of some rows.
template <class T>
class InverseSums {
 public:
  static constexpr index_t most_rows = 64;

  InverseSums(const kernels::KernelTable<T>& kernels, const T* row_sum, index_t rows) {
    tell_read(kernels, row_sum, rows);
    for (index_t i = 0; i < rows; ++i) of_rows_[i] = inverse_sum(row_sum[i]);
  }
  RowFactors<T> factors() const { return RowFactors<T>(of_rows_); }

 private:
  T of_rows_[most_rows];
};
// Rounded once: its error is one of all gradients of the row.
template <class T>
void write_lse(const kernels::KernelTable<T>& kernels, const T* row_max, const T* row_sum, T* lse) {
  tell_read(kernels, row_max, 1);
  tell_written(kernels, lse, 1);
  const double max = static_cast<double>(*row_max), sum = static_cast<double>(*row_sum);
  *lse = static_cast<T>(max + std::log(sum));
}

}  // namespace ioattn::schedules
