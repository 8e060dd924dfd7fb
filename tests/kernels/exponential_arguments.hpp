#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/implementations.hpp"

// exp as the score tiles use it, what it is asked for, and its errors.
namespace ioattn_test {

using ioattn::kernels::KernelTable;

// Arguments from which on the result is 0, and up to which it is exact (generic/exponential.hpp).
template <class T>
constexpr T lowest = sizeof(T) == 4 ? T(-86.9) : T(-707);
template <class T>
constexpr T highest = sizeof(T) == 4 ? T(88) : T(709);

template <class T>
std::vector<T> exponentials(const KernelTable<T>& table, std::vector<T> x) {
  const std::vector<T> zeros(x.size(), T(0));
  const index_t count = static_cast<index_t>(x.size());
  table.exp_tile({x.data(), count, 1, count}, zeros.data());
  return x;
}

// Of powers of 2, normal ones, which softmax asks for up to 2^8.
template <class T>
constexpr T lowest_of_2 = std::numeric_limits<T>::min_exponent - 1;
template <class T>
constexpr T highest_of_2 = 8;

// Weights of scores whose maximum was 0 before.
template <class T>
std::vector<T> powers_of_2(const KernelTable<T>& table, std::vector<T> x) {
  const index_t count = static_cast<index_t>(x.size());
  std::vector<T> row_max(x.size(), T(0)), row_sum(x.size(), T(0));
  table.binary_softmax_update({x.data(), count, 1, count}, true, row_max.data(), row_sum.data(),
                              nullptr);
  return x;
}

// Distance from the exact value in units of the last place of the type.
template <class T>
double error_in_ulp(T x, T result, bool binary = false) {
  const long double wide = static_cast<long double>(x);
  const long double exact = binary ? std::exp2(wide) : std::exp(wide);
  int exponent;
  std::frexp(exact, &exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(result) - exact) / ulp);
}

// Uniform in the range, uniform in the logarithm, both sides of every rounding of x / ln 2, limits.
template <class T>
std::vector<T> arguments(std::size_t count, std::uint64_t seed = 3) {
  std::mt19937_64 engine(seed);
  std::vector<T> x = {lowest<T>,
                      highest<T>,
                      std::nextafter(lowest<T>, T(0)),
                      std::nextafter(highest<T>, T(0)),
                      std::numeric_limits<T>::min(),
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::epsilon()};
  for (int half = -2050; half <= 2050; ++half) {
    const T middle = static_cast<T>(half * 0.5 * 0.69314718055994530942);
    for (const T near : {std::nextafter(middle, T(-2000)), middle, std::nextafter(middle, T(2000))})
      if (near >= lowest<T> && near <= highest<T>) x.push_back(near);
  }
  std::uniform_real_distribution<T> uniform(lowest<T>, highest<T>);
  std::uniform_real_distribution<T> logarithm(-40, 0);
  while (x.size() < count) {
    x.push_back(uniform(engine));
    const T small = std::exp(logarithm(engine));
    x.push_back(highest<T> * small);
    x.push_back(lowest<T> * small);
  }
  return x;
}

}  // namespace ioattn_test
