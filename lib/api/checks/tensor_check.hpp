#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "base/tensor_view.hpp"

namespace ioattn::api {

// Collects the tensors of a call and finds the first thing wrong with them: a null pointer, a
// stride that is negative or below the row length, a size that overflows, an output whose elements
// overlap each other or an element of another tensor. Tensors that interleave, such as heads of
// packed Q, K and V, do not overlap.
class TensorCheck {
 public:
  template <class T>
  void input(const char* name, const TensorView<const T>& view) {
    add(name, view.data, shape_of(view), sizeof(T), false);
  }
  template <class T>
  void output(const char* name, const TensorView<T>& view) {
    add(name, view.data, shape_of(view), sizeof(T), true);
  }
  const Status& status();

 private:
  struct Dimension {
    index_t count, stride;
  };
  struct Shape {
    std::array<Dimension, 3> outer;  // batch, heads, rows
    index_t cols;
  };
  struct Tensor {
    const char* name;
    std::uintptr_t begin, end;
    Shape shape;  // in bytes, outer dimensions by falling strides
    bool nested;  // every stride spans what is inside
    bool is_output;
  };

  template <class T>
  static Shape shape_of(const TensorView<T>& v) {
    return {{{{v.batch, v.batch_stride}, {v.heads, v.head_stride}, {v.rows, v.row_stride}}},
            v.cols};
  }
  void add(const char* name, const void* data, Shape shape, std::size_t element, bool is_output);
  static bool has_element_in(const Tensor& nested, index_t first, index_t last);
  static bool overlap(const Tensor& output, const Tensor& other);

  std::vector<Tensor> tensors_;
  Status status_;
};

}  // namespace ioattn::api
