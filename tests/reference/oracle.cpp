#include "reference/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace ioattn_reference {
namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

template <class T>
void check_shapes(const LayerInputs<T>& in) {
  const std::size_t d = in.X.rows;
  require(in.X.cols == d, "X is not square");
  require(in.A1.cols == d && in.A2.cols == d && in.A3.cols == d, "A1, A2, A3 need d columns");
  require(in.A2.rows == in.A3.rows, "A2 and A3 need m rows each");
  require(in.Y.rows == d, "Y needs d rows");
  require(in.dO.rows == in.A1.rows && in.dO.cols == in.Y.cols, "dO needs the shape of O");
}

}  // namespace

template <class T>
Matrix<T> multiply(const Matrix<T>& a, const Matrix<T>& b) {
  require(a.cols == b.rows, "multiply: inner sizes differ");
  Matrix<T> c(a.rows, b.cols);
  for (std::size_t i = 0; i < a.rows; ++i) {
    T* c_row = c.row(i);
    for (std::size_t k = 0; k < a.cols; ++k) {  // k before j: rows of b and c are walked in order
      const T a_ik = a.row(i)[k];
      const T* b_row = b.row(k);
      for (std::size_t j = 0; j < b.cols; ++j) c_row[j] += a_ik * b_row[j];
    }
  }
  return c;
}

template <class T>
Matrix<T> transpose(const Matrix<T>& a) {
  Matrix<T> t(a.cols, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) t.row(j)[i] = a.row(i)[j];
  return t;
}

template <class T>
T inner(const Matrix<T>& a, const Matrix<T>& b) {
  require(a.rows == b.rows && a.cols == b.cols, "inner: shapes differ");
  T sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

template <class T>
Forward<T> forward(const LayerInputs<T>& in) {
  check_shapes(in);
  const std::size_t n = in.A1.rows;
  const std::size_t m = in.A2.rows;
  const T infinity = std::numeric_limits<T>::infinity();
  Forward<T> out;

  out.S = multiply(in.A1, in.X);              // S = A1 X
  out.s = multiply(out.S, transpose(in.A2));  // s = scale S A2^T
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j)
      out.s(i, j) = in.sees(i, j) ? static_cast<T>(in.scale) * out.s(i, j) : -infinity;
  out.L = Matrix<T>(n, 1);
  out.f = Matrix<T>(n, m);
  for (std::size_t i = 0; i < n; ++i) {
    const T* s = out.s.row(i);
    // "not all" rather than "max": a NaN is no maximum, but it must not look like a masked row.
    if (std::all_of(s, s + m, [&](T score) { return score == -infinity; })) {
      out.L(i, 0) = -infinity;
      continue;
    }
    // L = log sum_j e^{s_ij}, with the maximum subtracted so that e^s cannot overflow
    const T max = *std::max_element(s, s + m);
    T sum = 0;
    for (std::size_t j = 0; j < m; ++j) sum += std::exp(s[j] - max);
    out.L(i, 0) = max + std::log(sum);
    // f = e^{s - L}
    for (std::size_t j = 0; j < m; ++j) out.f(i, j) = std::exp(s[j] - max) / sum;
  }
  out.h = multiply(in.A3, in.Y);   // h = A3 Y
  out.O = multiply(out.f, out.h);  // O = f h
  return out;
}

template <class T>
Backward<T> backward(const LayerInputs<T>& in, const Forward<T>& fwd) {
  check_shapes(in);
  const std::size_t n = in.A1.rows;
  const std::size_t m = in.A2.rows;
  Backward<T> out;

  // O = f h:  df = dO h^T, called q
  out.q = multiply(in.dO, transpose(fwd.h));

  // f = softmax(s):  ds_ij = f_ij (q_ij - sum_k f_ik q_ik), called p; the sum is v = rowsum(O o dO)
  out.v = Matrix<T>(n, 1);
  out.p = Matrix<T>(n, m);
  for (std::size_t i = 0; i < n; ++i) {
    T v = 0;
    for (std::size_t k = 0; k < in.dO.cols; ++k) v += fwd.O(i, k) * in.dO(i, k);
    out.v(i, 0) = v;
    for (std::size_t j = 0; j < m; ++j) out.p(i, j) = fwd.f(i, j) * (out.q(i, j) - v);
  }

  // s = scale S A2^T:  dS = scale p A2, called U, and dA2 = scale p^T S
  Matrix<T> scaled = out.p;
  for (T& value : scaled.values) value *= static_cast<T>(in.scale);
  out.U = multiply(scaled, in.A2);
  out.dA2 = multiply(transpose(scaled), fwd.S);

  // S = A1 X:  dX = A1^T U and dA1 = U X^T
  out.dX = multiply(transpose(in.A1), out.U);
  out.dA1 = multiply(out.U, transpose(in.X));

  // O = f h:  dh = f^T dO, called W;  h = A3 Y:  dA3 = W Y^T and dY = A3^T W
  out.W = multiply(transpose(fwd.f), in.dO);
  out.dA3 = multiply(out.W, transpose(in.Y));
  out.dY = multiply(transpose(in.A3), out.W);
  return out;
}

template <class T>
Matrix<T> tangent(const LayerInputs<T>& in, const Forward<T>& fwd,
                  const LayerInputs<T>& direction) {
  const auto sum_of = [](Matrix<T> a, const Matrix<T>& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
    return a;
  };
  const std::size_t n = in.A1.rows;
  const std::size_t m = in.A2.rows;

  // S = A1 X;  s = S A2^T;  h = A3 Y, each by the product rule
  const Matrix<T> S = sum_of(multiply(direction.A1, in.X), multiply(in.A1, direction.X));
  Matrix<T> s = sum_of(multiply(S, transpose(in.A2)), multiply(fwd.S, transpose(direction.A2)));
  for (T& value : s.values) value *= static_cast<T>(in.scale);
  const Matrix<T> h = sum_of(multiply(direction.A3, in.Y), multiply(in.A3, direction.Y));

  // f = e^{s - L}, where L changes by the mean of the scores' changes under f
  Matrix<T> f(n, m);
  for (std::size_t i = 0; i < n; ++i) {
    T mean = 0;
    for (std::size_t j = 0; j < m; ++j) mean += fwd.f(i, j) * s(i, j);
    for (std::size_t j = 0; j < m; ++j) f(i, j) = fwd.f(i, j) * (s(i, j) - mean);
  }
  // O = f h
  return sum_of(multiply(f, fwd.h), multiply(fwd.f, h));
}

#define IOATTN_REFERENCE_INSTANTIATE(T)                                    \
  template Matrix<T> multiply(const Matrix<T>&, const Matrix<T>&);         \
  template Matrix<T> transpose(const Matrix<T>&);                          \
  template T inner(const Matrix<T>&, const Matrix<T>&);                    \
  template Forward<T> forward(const LayerInputs<T>&);                      \
  template Backward<T> backward(const LayerInputs<T>&, const Forward<T>&); \
  template Matrix<T> tangent(const LayerInputs<T>&, const Forward<T>&, const LayerInputs<T>&)

IOATTN_REFERENCE_INSTANTIATE(float);
IOATTN_REFERENCE_INSTANTIATE(double);
IOATTN_REFERENCE_INSTANTIATE(long double);

}  // namespace ioattn_reference
