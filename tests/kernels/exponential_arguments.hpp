#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/implementations.hpp"

// exp as the score tiles use it, what it is asked for, and its errors.
namespace ioattn_test {

using ioattn::kernels::KernelTable;

// Arguments down to which results are normal numbers, and at which they are 0
// (generic/exponential.hpp).
template <class T>
constexpr T lowest = sizeof(T) == 4 ? T(-87.3) : T(-708.3);
template <class T>
constexpr T least = sizeof(T) == 4 ? T(-88.0296919) : T(-709.0895657128241);
// Softmax weights are at most e^highest.
template <class T>
constexpr T highest = T(32);

// Weights of scores less LSE.
template <class T>
std::vector<T> exponentials(const KernelTable<T>& table, std::vector<T> x) {
  const std::vector<T> zeros(x.size(), T(0));
  const index_t count = static_cast<index_t>(x.size());
  table.exp_tile({x.data(), count, 1, count}, zeros.data());
  return x;
}

// Weights of scores whose maximum was 0 before.
template <class T>
std::vector<T> softmax_weights(const KernelTable<T>& table, std::vector<T> x) {
  const index_t count = static_cast<index_t>(x.size());
  std::vector<T> row_max(x.size(), T(0)), row_sum(x.size(), T(0));
  table.softmax_update({x.data(), count, 1, count}, true, row_max.data(), row_sum.data(), nullptr);
  return x;
}

// Distance from the exact value in units of the last place of the type.
template <class T>
double error_in_ulp(T x, T result) {
  const long double exact = std::exp(static_cast<long double>(x));
  int exponent;
  std::frexp(exact, &exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(result) - exact) / ulp);
}

// At most `last`, which is not negative: uniform in the range, uniform in the logarithm, both sides
// of every rounding of 32 x / ln 2, limits.
template <class T>
std::vector<T> arguments(std::size_t count, T last, std::uint64_t seed = 3) {
  std::mt19937_64 engine(seed);
  std::vector<T> x = {lowest<T>,
                      last,
                      std::nextafter(lowest<T>, T(0)),
                      std::nextafter(last, lowest<T>),
                      -std::numeric_limits<T>::min(),
                      -std::numeric_limits<T>::denorm_min(),
                      -std::numeric_limits<T>::epsilon()};
  for (int k = -32 * 1025; k <= 32 * 47; ++k) {
    const T middle = static_cast<T>(k * 0.69314718055994530942 / 32);
    for (const T near : {std::nextafter(middle, T(-2000)), middle, std::nextafter(middle, T(2000))})
      if (near >= lowest<T> && near <= last) x.push_back(near);
  }
  std::uniform_real_distribution<T> uniform(lowest<T>, last);
  std::uniform_real_distribution<T> logarithm(-40, 0);
  while (x.size() < count) {
    x.push_back(uniform(engine));
    const T small = std::exp(logarithm(engine));
    x.push_back(last * small);
    x.push_back(lowest<T> * small);
  }
  return x;
}

}  // namespace ioattn_test
