#pragma once

#include "base/sdpa.hpp"
#include "bench/aligned_vector.hpp"

namespace ioattn::bench {

// One head of SDPA as it is written down: n x m matrices in memory, every product by OpenBLAS,
// element-wise loops vectorised by the compiler. What a careful user has without this library.
template <class T>
class NaiveSdpa {
 public:
  // Of LayerShape n, m, d and dv count: no mask.
  NaiveSdpa(const LayerShape& head, double scale, int threads);

  void forward(const T* q, const T* k, const T* v, T* o, T* lse);

  struct Gradients {
    T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  };
  // From O and LSE of the forward pass, as the library's: scores are computed again. A null
  // gradient is not wanted. All matrices without padding.
  void backward(const T* q, const T* k, const T* v, const T* d_o, const T* o, const T* lse,
                const Gradients& out);

 private:
  LayerShape head_;
  double scale_;
  AlignedVector<T> f_, p_;
};

}  // namespace ioattn::bench
