#pragma once

#include <array>

#include "base/checked_size.hpp"
#include "base/layer_inputs.hpp"
#include "base/status.hpp"
#include "plan/layer/gradient_planner.hpp"

namespace ioattn::api {

Status invalid(const char* message);

// Collects the arrays of a call and finds the first thing wrong with them: sizes other than those
// wanted, which validate_problem has found valid, a null pointer, a stride below the row length,
// sizes that overflow, an output that overlaps another array.
class ArgumentCheck {
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

// A scale is finite, and 0 only if it is given as 0, as the type that sums of the dtype have.
Status validate_scale(double scale, DType dtype);

// Sizes are not negative and the schedules' own products of sizes fit in 64 bits.
Status validate_shape(const LayerShape& shape);
// The same for a batch of at least 1, and the scale.
Status validate_problem(const LayerProblem& problem);

// Where an array of so many bytes is, which has elements of a size; or why it is nowhere.
Status find_range(const char* name, const void* data, CheckedSize bytes, std::size_t element,
                  std::uintptr_t* begin, std::uintptr_t* end);

// The same for the products with W_Q or W_K [d, dk].
Status validate_weights(index_t d, index_t dk);

// Block sizes may exceed the problem's, but begin + size must not overflow.
constexpr index_t largest_block = index_t(1) << 40;

// The plan's schedule exists for the pass, takes the mask if there is one and operands of the
// dtype, and its blocks are positive where the schedule uses them.
Status validate_plan(Pass pass, const plan::Plan& plan, const Mask& mask, DType dtype);
// The same for every phase that the gradients take.
Status validate_plan(const plan::GradientPlan& plan, const GradientSet& set, Tie tie,
                     const Mask& mask, DType dtype);

}  // namespace ioattn::api
