#include "bench/naive_sdpa.hpp"

#include <algorithm>
#include <cmath>

#include "bench/openblas.hpp"

namespace ioattn::bench {

template <class T>
NaiveSdpa<T>::NaiveSdpa(const LayerShape& head, double scale, int threads)
    : head_(head),
      scale_(scale),
      f_(static_cast<std::size_t>(head.n * head.m)),
      p_(static_cast<std::size_t>(head.n * head.m)) {
  set_openblas_threads(threads);
}

template <class T>
void NaiveSdpa<T>::forward(const T* q, const T* k, const T* v, T* o, T* lse) {
  const index_t n = head_.n, m = head_.m;
  gemm(Op::plain, Op::transposed, n, m, head_.d, scale_, q, k, f_.data());
  for (index_t i = 0; i < n; ++i) {
    T* row = f_.data() + i * m;
    T largest = row[0], sum = 0;
    for (index_t j = 1; j < m; ++j) largest = std::max(largest, row[j]);
    for (index_t j = 0; j < m; ++j) {
      row[j] = std::exp(row[j] - largest);
      sum += row[j];
    }
    for (index_t j = 0; j < m; ++j) row[j] /= sum;
    lse[i] = largest + std::log(sum);
  }
  gemm(Op::plain, Op::plain, n, head_.dv, m, 1, f_.data(), v, o);
}

template <class T>
void NaiveSdpa<T>::backward(const T* q, const T* k, const T* v, const T* d_o, const T* o,
                            const T* lse, const Gradients& out) {
  const index_t n = head_.n, m = head_.m, d = head_.d, e = head_.dv;
  gemm(Op::plain, Op::transposed, n, m, d, scale_, q, k, f_.data());
  gemm(Op::plain, Op::transposed, n, m, e, 1, d_o, v, p_.data());
  for (index_t i = 0; i < n; ++i) {
    T delta = 0;
    for (index_t c = 0; c < e; ++c) delta += o[i * e + c] * d_o[i * e + c];
    T *f = f_.data() + i * m, *p = p_.data() + i * m;
    for (index_t j = 0; j < m; ++j) {
      f[j] = std::exp(f[j] - lse[i]);
      p[j] = f[j] * (p[j] - delta);
    }
  }
  if (out.dq != nullptr) gemm(Op::plain, Op::plain, n, d, m, scale_, p_.data(), k, out.dq);
  if (out.dk != nullptr) gemm(Op::transposed, Op::plain, m, d, n, scale_, p_.data(), q, out.dk);
  if (out.dv != nullptr) gemm(Op::transposed, Op::plain, m, e, n, 1, f_.data(), d_o, out.dv);
}

template class NaiveSdpa<float>;
template class NaiveSdpa<double>;

}  // namespace ioattn::bench
