#include "normal_numbers.hpp"

#include <cmath>

namespace ioattn_test {

namespace {

// In [0, 1).
template <class T>
T unit(std::mt19937& engine) {
  T sum = 0, range = 1;
  for (std::size_t draw = 0; draw < sizeof(T) / sizeof(float); ++draw) {
    sum += static_cast<T>(engine()) * range;
    range *= T(0x1p32);
  }
  const T x = sum / range;
  return x < 1 ? x : std::nextafter(T(1), T(0));
}

}  // namespace

template <class T>
T NormalNumbers<T>::operator()(std::mt19937& engine) {
  T x = next_;
  if (!has_next_) {
    T y, square;
    do {
      next_ = 2 * unit<T>(engine) - 1;
      y = 2 * unit<T>(engine) - 1;
      square = next_ * next_ + y * y;
    } while (square > 1 || square == 0);
    const T factor = std::sqrt(-2 * std::log(square) / square);
    next_ *= factor;
    x = y * factor;
  }
  has_next_ = !has_next_;
  return x * deviation_ + mean_;
}

template class NormalNumbers<float>;
template class NormalNumbers<double>;

}  // namespace ioattn_test
