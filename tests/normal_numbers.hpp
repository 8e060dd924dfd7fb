#pragma once

#include <random>

namespace ioattn_test {

// Normal numbers by Marsaglia's polar method, of 32 random bits a factor (T = double: 64), from a
// file of its own that is always optimised and never sanitized. The standard library's take two
// logarithms of long double for every number, and took half the time of some tests.
template <class T>
class NormalNumbers {
 public:
  explicit NormalNumbers(T mean = 0, T deviation = 1) : mean_(mean), deviation_(deviation) {}
  T operator()(std::mt19937& engine);

 private:
  T mean_, deviation_;
  T next_ = 0;  // the other one of a pair
  bool has_next_ = false;
};

extern template class NormalNumbers<float>;
extern template class NormalNumbers<double>;

}  // namespace ioattn_test
