#pragma once

#include <cstddef>
#include <vector>

// Layer attention by three plain passes over n x m matrices: what every schedule is held against.
// It includes nothing of lib, so that no mistake can be on both sides. All matrices are dense and
// row-major; T is float (a naive evaluation to compare with), double or long double. Names and
// formulas are those of arXiv 2410.09397, appendix "Definitions of intermediate variables" (there
// e^s and its row sums l, here L = log l), extended to all inputs by the chain rule.
namespace ioattn_reference {

template <class T>
struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<T> values;

  Matrix() = default;
  Matrix(std::size_t row_count, std::size_t col_count)
      : rows(row_count), cols(col_count), values(row_count * col_count) {}

  T* row(std::size_t i) { return values.data() + i * cols; }
  const T* row(std::size_t i) const { return values.data() + i * cols; }
  T& operator()(std::size_t i, std::size_t j) { return values[i * cols + j]; }
  const T& operator()(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
};

// A1 [n,d], A2 and A3 [m,d], X [d,d], Y [d,dv]; dO [n,dv] is the gradient of the loss by O. Any
// size may be 0. Inputs whose shapes do not fit together: std::invalid_argument from forward and
// backward.
//
// Scores are scale * A1 X A2^T, and query i sees the keys i + first_key to i + last_key.
template <class T>
struct LayerInputs {
  static constexpr long long unlimited = 1LL << 60;

  Matrix<T> A1, A2, A3, X, Y, dO;
  double scale = 1;
  long long first_key = -unlimited, last_key = unlimited;

  bool sees(std::size_t i, std::size_t j) const {
    const long long key = static_cast<long long>(j) - static_cast<long long>(i);
    return first_key <= key && key <= last_key;
  }
};

// S [n,d], s [n,m] scores, L [n,1] log of the row sums of e^s, f [n,m] softmax, h [m,dv], O [n,dv].
// Scores of hidden keys are -inf. A row without a score above -inf (m = 0 is one) is fully masked:
// L = -inf, f = 0, O = 0.
template <class T>
struct Forward {
  Matrix<T> S, s, L, f, h, O;
};

// q, p [n,m], v [n,1], U [n,d], W [m,dv], and the gradients of the loss <O, dO> by each input.
template <class T>
struct Backward {
  Matrix<T> q, v, p, U, W;
  Matrix<T> dX, dY, dA1, dA2, dA3;
};

template <class T>
Forward<T> forward(const LayerInputs<T>& in);

template <class T>
Backward<T> backward(const LayerInputs<T>& in, const Forward<T>& fwd);

// The derivative of O along `direction`, whose A1, A2, A3, X, Y are added to those of `in` (its dO
// is not read): forward mode, which shares no line with backward.
template <class T>
Matrix<T> tangent(const LayerInputs<T>& in, const Forward<T>& fwd, const LayerInputs<T>& direction);

template <class T>
Matrix<T> multiply(const Matrix<T>& a, const Matrix<T>& b);

template <class T>
Matrix<T> transpose(const Matrix<T>& a);

// Sum of the products of the entries.
template <class T>
T inner(const Matrix<T>& a, const Matrix<T>& b);

template <class To, class From>
Matrix<To> convert(const Matrix<From>& from) {
  Matrix<To> to(from.rows, from.cols);
  for (std::size_t i = 0; i < from.values.size(); ++i)
    to.values[i] = static_cast<To>(from.values[i]);
  return to;
}

template <class To, class From>
LayerInputs<To> convert(const LayerInputs<From>& in) {
  return {convert<To>(in.A1), convert<To>(in.A2), convert<To>(in.A3),
          convert<To>(in.X),  convert<To>(in.Y),  convert<To>(in.dO),
          in.scale,           in.first_key,       in.last_key};
}

}  // namespace ioattn_reference
