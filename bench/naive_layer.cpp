#include "bench/naive_layer.hpp"

#include "bench/openblas.hpp"

namespace ioattn::bench {
namespace {

template <class T>
AlignedVector<T> matrix(index_t rows, index_t cols) {
  return AlignedVector<T>(static_cast<std::size_t>(rows * cols));
}

}  // namespace

template <class T>
NaiveLayer<T>::NaiveLayer(const LayerShape& shape, int threads)
    : shape_(shape),
      attention_(shape, 1, threads),
      s_(matrix<T>(shape.n, shape.d)),
      h_(matrix<T>(shape.m, shape.dv)),
      u_(matrix<T>(shape.n, shape.d)),
      w_(matrix<T>(shape.m, shape.dv)) {}

template <class T>
void NaiveLayer<T>::project(const LayerInputs<T>& in) {
  const auto [n, m, d, e, tie, mask] = shape_;
  gemm(Op::plain, Op::plain, n, d, d, 1, in.a1.data, in.x.data, s_.data());
  gemm(Op::plain, Op::plain, m, e, d, 1, in.a3.data, in.y.data, h_.data());
}

template <class T>
void NaiveLayer<T>::forward(const LayerInputs<T>& in, T* o, T* lse) {
  project(in);
  attention_.forward(s_.data(), in.a2.data, h_.data(), o, lse);
}

template <class T>
void NaiveLayer<T>::backward(const LayerInputs<T>& in, const T* d_o, const T* o, const T* lse,
                             const Gradients& out) {
  const auto [n, m, d, e, tie, mask] = shape_;
  T* u = out.dx != nullptr || out.da1 != nullptr ? u_.data() : nullptr;
  T* w = out.da3 != nullptr || out.dy != nullptr ? w_.data() : nullptr;
  project(in);
  attention_.backward(s_.data(), in.a2.data, h_.data(), d_o, o, lse, {u, out.da2, w});
  if (out.dx != nullptr) gemm(Op::transposed, Op::plain, d, d, n, 1, in.a1.data, u, out.dx);
  if (out.da1 != nullptr) gemm(Op::plain, Op::transposed, n, d, d, 1, u, in.x.data, out.da1);
  if (out.da3 != nullptr) gemm(Op::plain, Op::transposed, m, d, e, 1, w, in.y.data, out.da3);
  if (out.dy != nullptr) gemm(Op::transposed, Op::plain, d, e, m, 1, in.a3.data, w, out.dy);
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

template class NaiveLayer<float>;
template class NaiveLayer<double>;

}  // namespace ioattn::bench
