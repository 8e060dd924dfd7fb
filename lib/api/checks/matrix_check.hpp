#pragma once

#include <array>
#include <cstdint>

#include "base/checked_size.hpp"
#include "base/matrix_view.hpp"
#include "base/status.hpp"

namespace ioattn::api {

// Collects the arrays of a call and finds the first thing wrong with them: sizes other than those
// wanted, which validate_problem has found valid, a null pointer, a stride below the row length,
// sizes that overflow, an output that overlaps another array.
class MatrixCheck {
 public:
  template <class T>
  void input(const char* name, const MatrixView<const T>& view, index_t rows, index_t cols) {
    add(name, view.data, view.rows, view.cols, view.stride, rows, cols, sizeof(T), false);
  }
  template <class T>
  void output(const char* name, const MatrixView<T>& view, index_t rows, index_t cols) {
    add(name, view.data, view.rows, view.cols, view.stride, rows, cols, sizeof(T), true);
  }
  const Status& status();

 private:
  struct Array {
    const char* name;
    std::uintptr_t begin, end;
    bool is_output;
  };
  void add(const char* name, const void* data, index_t rows, index_t cols, index_t stride,
           index_t wanted_rows, index_t wanted_cols, std::size_t element, bool is_output);

  static constexpr std::size_t most_arrays = 18;  // inputs and all gradients
  std::array<Array, most_arrays> arrays_{};
  std::size_t count_ = 0;
  Status status_;
};

// Where an array of so many bytes is, which has elements of a size; or why it is nowhere.
Status find_range(const char* name, const void* data, CheckedSize bytes, std::size_t element,
                  std::uintptr_t* begin, std::uintptr_t* end);

}  // namespace ioattn::api
