#pragma once

#include <vector>

#include "base/layer_inputs.hpp"

namespace ioattn::bench {

// The layer problem as it is written down: n x m matrices in memory, every product by OpenBLAS,
// element-wise loops vectorised by the compiler. What a careful user has without this library.
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
  LayerShape shape_;
  std::vector<T> s_, h_, f_, p_, u_, w_;
};

// OpenBLAS 0.3.21 takes newer CPUs for older ones: sets OPENBLAS_CORETYPE to the best core whose
// instructions this CPU has, unless it is set, and starts the program again.
void force_best_openblas_core(char** argv);
const char* openblas_core();

}  // namespace ioattn::bench
