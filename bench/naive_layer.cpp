#include "bench/naive_layer.hpp"

#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ioattn::bench {
namespace {

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, index_t rows, index_t cols, index_t depth,
          const float* a, index_t lda, const float* b, index_t ldb, float* c, index_t ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, int(rows), int(cols), int(depth), 1, a, int(lda), b, int(ldb),
              0, c, int(ldc));
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, index_t rows, index_t cols, index_t depth,
          const double* a, index_t lda, const double* b, index_t ldb, double* c, index_t ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, int(rows), int(cols), int(depth), 1, a, int(lda), b, int(ldb),
              0, c, int(ldc));
}

constexpr CBLAS_TRANSPOSE plain = CblasNoTrans, transposed = CblasTrans;

template <class T>
std::vector<T> matrix(index_t rows, index_t cols) {
  return std::vector<T>(static_cast<std::size_t>(rows * cols));
}

}  // namespace

template <class T>
NaiveLayer<T>::NaiveLayer(const LayerShape& shape, int threads)
    : shape_(shape),
      s_(matrix<T>(shape.n, shape.d)),
      h_(matrix<T>(shape.m, shape.dv)),
      f_(matrix<T>(shape.n, shape.m)),
      p_(matrix<T>(shape.n, shape.m)),
      u_(matrix<T>(shape.n, shape.d)),
      w_(matrix<T>(shape.m, shape.dv)) {
  openblas_set_num_threads(threads);
}

template <class T>
void NaiveLayer<T>::forward(const LayerInputs<T>& in, T* o, T* lse) {
  const auto [n, m, d, e, tie, mask] = shape_;
  gemm(plain, plain, n, d, d, in.a1.data, d, in.x.data, d, s_.data(), d);
  gemm(plain, plain, m, e, d, in.a3.data, d, in.y.data, e, h_.data(), e);
  gemm(plain, transposed, n, m, d, s_.data(), d, in.a2.data, d, f_.data(), m);
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
  gemm(plain, plain, n, e, m, f_.data(), m, h_.data(), e, o, e);
}

template <class T>
void NaiveLayer<T>::backward(const LayerInputs<T>& in, const T* d_o, const T* o, const T* lse,
                             const Gradients& out) {
  const auto [n, m, d, e, tie, mask] = shape_;
  gemm(plain, plain, n, d, d, in.a1.data, d, in.x.data, d, s_.data(), d);
  gemm(plain, plain, m, e, d, in.a3.data, d, in.y.data, e, h_.data(), e);
  gemm(plain, transposed, n, m, d, s_.data(), d, in.a2.data, d, f_.data(), m);
  gemm(plain, transposed, n, m, e, d_o, e, h_.data(), e, p_.data(), m);
  for (index_t i = 0; i < n; ++i) {
    T delta = 0;
    for (index_t k = 0; k < e; ++k) delta += o[i * e + k] * d_o[i * e + k];
    T *f = f_.data() + i * m, *p = p_.data() + i * m;
    for (index_t j = 0; j < m; ++j) {
      f[j] = std::exp(f[j] - lse[i]);
      p[j] = f[j] * (p[j] - delta);
    }
  }
  if (out.dx != nullptr || out.da1 != nullptr) {
    gemm(plain, plain, n, d, m, p_.data(), m, in.a2.data, d, u_.data(), d);
  }
  if (out.dx != nullptr) {
    gemm(transposed, plain, d, d, n, in.a1.data, d, u_.data(), d, out.dx, d);
  }
  if (out.da1 != nullptr) {
    gemm(plain, transposed, n, d, d, u_.data(), d, in.x.data, d, out.da1, d);
  }
  if (out.da2 != nullptr) {
    gemm(transposed, plain, m, d, n, p_.data(), m, s_.data(), d, out.da2, d);
  }
  if (out.da3 == nullptr && out.dy == nullptr) return;
  gemm(transposed, plain, m, e, n, f_.data(), m, d_o, e, w_.data(), e);
  if (out.da3 != nullptr) {
    gemm(plain, transposed, m, d, e, w_.data(), e, in.y.data, e, out.da3, d);
  }
  if (out.dy != nullptr) {
    gemm(transposed, plain, d, e, m, in.a3.data, d, w_.data(), e, out.dy, e);
  }
}

template <class T>
index_t NaiveLayer<T>::forward_fma(const LayerShape& shape) {
  const auto [n, m, d, e, tie, mask] = shape;
  return n * d * d + m * d * e + n * m * (d + e);
}

template <class T>
index_t NaiveLayer<T>::fma(const LayerShape& shape, const Gradients& out) {
  const auto [n, m, d, e, tie, mask] = shape;
  const bool of_u = out.dx != nullptr || out.da1 != nullptr;
  const bool of_w = out.da3 != nullptr || out.dy != nullptr;
  return n * d * d + m * d * e + n * m * (d + e) + (of_u ? n * m * d : 0) +
         (out.dx != nullptr ? n * d * d : 0) + (out.da1 != nullptr ? n * d * d : 0) +
         (out.da2 != nullptr ? n * m * d : 0) + (of_w ? n * m * e : 0) +
         (out.da3 != nullptr ? m * d * e : 0) + (out.dy != nullptr ? m * d * e : 0);
}

void force_best_openblas_core(char** argv) {
  if (getenv("OPENBLAS_CORETYPE") != nullptr) return;
  __builtin_cpu_init();
  const char* core = nullptr;
  if (__builtin_cpu_supports("avx512bf16")) {
    core = "Cooperlake";
  } else if (__builtin_cpu_supports("avx512f")) {
    core = "SkylakeX";
  } else {
    return;  // without AVX-512 it knows the CPU
  }
  setenv("OPENBLAS_CORETYPE", core, 1);
  execv("/proc/self/exe", argv);  // OpenBLAS looked before main; if this fails, so be it
}

const char* openblas_core() { return openblas_get_corename(); }

template class NaiveLayer<float>;
template class NaiveLayer<double>;

}  // namespace ioattn::bench
