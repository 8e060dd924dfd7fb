#pragma once

#include "base/layer_inputs.hpp"
#include "bench/aligned_vector.hpp"
#include "bench/naive_sdpa.hpp"

namespace ioattn::bench {

// The layer problem as it is written down: S = A1 X and H = A3 Y, then NaiveSdpa of S, A2 and H.
template <class T>
class NaiveLayer {
 public:
  NaiveLayer(const LayerShape& shape, int threads);

  void forward(const LayerInputs<T>& in, T* o, T* lse);

  struct Gradients {
    T *dx = nullptr, *dy = nullptr, *da1 = nullptr, *da2 = nullptr, *da3 = nullptr;
  };
  // From O and LSE of the forward pass, as the library's: scores are computed again. A null
  // gradient is not wanted. All matrices without padding.
  void backward(const LayerInputs<T>& in, const T* d_o, const T* o, const T* lse,
                const Gradients& out);

  // Multiply-adds of a pass.
  static index_t forward_fma(const LayerShape& shape);
  static index_t fma(const LayerShape& shape, const Gradients& out);

 private:
  void project(const LayerInputs<T>& in);

  LayerShape shape_;
  NaiveSdpa<T> attention_;
  AlignedVector<T> s_, h_, u_, w_;
};

}  // namespace ioattn::bench
