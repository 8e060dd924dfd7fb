#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/layer_inputs.hpp"
#include "tune/cli_fwd.hpp"
#include "tune/files/matrix.hpp"

namespace ioattn::tune {

struct LayerPaths {
  std::string a1, a2, a3, x, y;         // empty a2, a3: those of a1
  std::string d_o, w_q = {}, w_k = {};  // empty: none
};

// --A1, --A2, --A3, --X, --Y and --dO: those that are computed with, required and of batches too,
// or those that may stand for a shape.
enum class FilesOf : std::uint8_t { batches, a_shape };
std::vector<CLI::Option*> add_layer_files(CLI::App* app, LayerPaths* paths, FilesOf of);

// The matrices of a layer problem in memory. Paths of the same file are read once and share memory.
// Of a batch, A1, A2, A3 and dO have the rows of all entries, one after the other.
template <class T>
struct LayerFiles {
  std::shared_ptr<const Matrix<T>> a1, a2, a3;
  Matrix<T> x, y, d_o, w_q, w_k;
  std::optional<index_t> batch;         // empty: the files have no dimension for it
  std::vector<std::string> not_finite;  // operands that hold a NaN or an Inf

  index_t entries() const { return batch.value_or(1); }
  MatrixView<const T> first_entry(const Matrix<T>& all) const {
    return {all.data.data(), all.rows / entries(), all.cols, all.cols};
  }
  // Without a mask and a scale.
  LayerInputs<T> inputs() const {
    LayerInputs<T> inputs = {first_entry(*a1), first_entry(*a2), first_entry(*a3), x.view(),
                             y.view()};
    inputs.batch = entries();
    return inputs;
  }
};

// Reads and checks shapes. A1, A2, A3 and dO are matrices, or batches of as many. Throws UsageError
// that names the file.
template <class T>
LayerFiles<T> read_layer(const LayerPaths& paths);

}  // namespace ioattn::tune
