#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/layer_inputs.hpp"
#include "tune/matrix.hpp"

namespace ioattn::tune {

struct LayerPaths {
  std::string a1, a2, a3, x, y;         // empty a2, a3: those of a1
  std::string d_o, w_q = {}, w_k = {};  // empty: none
};

// The matrices of a layer problem in memory. Paths of the same file are read once and share memory.
template <class T>
struct LayerFiles {
  std::shared_ptr<const Matrix<T>> a1, a2, a3;
  Matrix<T> x, y, d_o, w_q, w_k;
  std::vector<std::string> not_finite;  // operands that hold a NaN or an Inf

  LayerInputs<T> inputs() const { return {a1->view(), a2->view(), a3->view(), x.view(), y.view()}; }
};

// Reads and checks shapes. Throws UsageError that names the file.
template <class T>
LayerFiles<T> read_layer(const LayerPaths& paths);

}  // namespace ioattn::tune
