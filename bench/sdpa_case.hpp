#pragma once

#include "base/sdpa.hpp"
#include "bench/aligned_vector.hpp"
#include "bench/normal_values.hpp"

namespace ioattn::bench {

// Inputs and outputs of one SDPA problem in C order.
template <class T>
class SdpaCase {
 public:
  explicit SdpaCase(const SdpaShape& shape) : shape_(shape) {
    const index_t queries = shape.all_heads() * shape.n, keys = shape.all_kv_heads() * shape.m;
    NormalValues<T> random;
    q = random(queries * shape.d, 1);
    k = random(keys * shape.d, 1);
    v = random(keys * shape.dv, 1);
    d_o = random(queries * shape.dv, 1);
    o.resize(d_o.size());
    lse.resize(static_cast<std::size_t>(queries));
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(v.size());
  }

  SdpaInputs<T> inputs() const {
    return {of_queries(q.data(), shape_.d), of_keys(k.data(), shape_.d),
            of_keys(v.data(), shape_.dv)};
  }
  TensorView<T> o_view() { return of_queries(o.data(), shape_.dv); }
  TensorView<Compute<T>> lse_view() {
    return dense_tensor(lse.data(), shape_.batch, shape_.heads, 1, shape_.n);
  }
  TensorView<const T> d_o_view() const { return of_queries(d_o.data(), shape_.dv); }
  SdpaGradients<T> gradients() {
    return {of_queries(dq.data(), shape_.d), of_keys(dk.data(), shape_.d),
            of_keys(dv.data(), shape_.dv)};
  }

  AlignedVector<T> q, k, v, d_o, o, dq, dk, dv;
  AlignedVector<Compute<T>> lse;

 private:
  template <class E>
  TensorView<E> of_queries(E* data, index_t cols) const {
    return dense_tensor(data, shape_.batch, shape_.heads, shape_.n, cols);
  }
  template <class E>
  TensorView<E> of_keys(E* data, index_t cols) const {
    return dense_tensor(data, shape_.batch, shape_.kv_heads, shape_.m, cols);
  }

  SdpaShape shape_;
};

}  // namespace ioattn::bench
