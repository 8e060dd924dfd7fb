#pragma once

#include <cmath>

#include "schedules/memory_moves.hpp"

// What a row's online softmax ends with.
namespace ioattn::schedules {

// Of scores times log2(e), whose weights are powers of 2.
inline constexpr double log2_of_e = 1.4426950408889634, ln_of_2 = 0.6931471805599453;

// A row that sees no key, or scores of -inf alone: O = 0, LSE = -inf.
template <class T>
T inverse_of_sum(const kernels::KernelTable<T>& kernels, const T* row_sum) {
  tell_read(kernels, row_sum, 1);
  return *row_sum == T(0) ? T(0) : T(1) / *row_sum;
}
template <class T>
void divide_by_sum(const kernels::KernelTable<T>& kernels, const T* row_sum, T* row,
                   index_t width) {
  const T inverse = inverse_of_sum(kernels, row_sum);
  tell_written(kernels, row, width);
  for (index_t k = 0; k < width; ++k) row[k] *= inverse;
}
template <class T>
void write_lse(const kernels::KernelTable<T>& kernels, const T* row_max, const T* row_sum, T* lse) {
  tell_read(kernels, row_max, 1);
  tell_written(kernels, lse, 1);
  *lse = *row_max + std::log(*row_sum);
}
// Of a maximum times log2(e). Rounded once: its error is one of all gradients of the row, and sums
// of weights are larger where maxima stay.
template <class T>
void write_binary_lse(const kernels::KernelTable<T>& kernels, const T* row_max, const T* row_sum,
                      T* lse) {
  tell_read(kernels, row_max, 1);
  tell_written(kernels, lse, 1);
  const double max = static_cast<double>(*row_max), sum = static_cast<double>(*row_sum);
  *lse = static_cast<T>(ln_of_2 * max + std::log(sum));
}

}  // namespace ioattn::schedules
