#pragma once

#include <array>

#include "api/layer_call.hpp"

// A call on a batch with a scale and a mask, and its reference: the oracle on every entry.
namespace ioattn_test {

struct MaskCase {
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = 0, right = 0;

  bool is_bottom_right() const {
    return mask == IOATTN_MASK_CAUSAL_BOTTOM_RIGHT || mask == IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  }
  bool is_window() const {
    return mask == IOATTN_MASK_WINDOW_TOP_LEFT || mask == IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  }
};
inline constexpr MaskCase mask_cases[] = {{IOATTN_MASK_NONE},
                                          {IOATTN_MASK_CAUSAL_TOP_LEFT},
                                          {IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
                                          {IOATTN_MASK_WINDOW_TOP_LEFT, 3, 2},
                                          {IOATTN_MASK_WINDOW_TOP_LEFT, -1, 4},
                                          {IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 2, -1},
                                          {IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 0, 0}};

struct BatchShape {
  CaseShape entry;
  std::int64_t batch = 1;
  double scale = 1;
  MaskCase mask;
};

inline std::string name_of(const BatchShape& shape) {
  return name_of(shape.entry) + ",b" + std::to_string(shape.batch) + ",s" +
         std::to_string(shape.scale) + ",mask" + std::to_string(shape.mask.mask) + "(" +
         std::to_string(shape.mask.left) + "," + std::to_string(shape.mask.right) + ")";
}

inline void set_options(const BatchShape& from, ioattn_layer_problem* problem) {
  problem->batch = from.batch;
  problem->scale = from.scale;
  problem->mask = from.mask.mask;
  problem->window_left = from.mask.left;
  problem->window_right = from.mask.right;
}

// The gradients of a BatchCall, in the order of its outputs.
struct BatchOutput {
  const char* name;
  void* ioattn_layer_gradients::*data;
  std::int64_t ioattn_layer_gradients::*stride;
  bool is_per_entry;
};
inline constexpr BatchOutput batch_outputs[] = {
    {"dX", &ioattn_layer_gradients::dx, &ioattn_layer_gradients::dx_stride, false},
    {"dY", &ioattn_layer_gradients::dy, &ioattn_layer_gradients::dy_stride, false},
    {"dA1", &ioattn_layer_gradients::da1, &ioattn_layer_gradients::da1_stride, true},
    {"dA2", &ioattn_layer_gradients::da2, &ioattn_layer_gradients::da2_stride, true},
    {"dA3", &ioattn_layer_gradients::da3, &ioattn_layer_gradients::da3_stride, true}};
inline constexpr std::size_t batch_output_count = std::size(batch_outputs);

template <class T>
class BatchCall {
 public:
  using Wide = typename LayerCall<T>::Wide;

  BatchCall(const BatchShape& batch_shape, std::size_t padding) : shape(batch_shape) {
    const auto [n, m, d, dv, ties] = shape.entry;
    const auto entries = static_cast<std::size_t>(shape.batch);
    for (std::size_t b = 0; b < entries; ++b) {
      inputs.push_back(reference::make_case(Kind::normal, shape.entry, 11 + b));
      inputs[b].X = inputs[0].X;
      inputs[b].Y = inputs[0].Y;
      const long long diagonal =
          shape.mask.is_bottom_right() ? static_cast<long long>(m) - static_cast<long long>(n) : 0;
      inputs[b].scale = shape.scale;
      if (shape.mask.is_window()) {
        if (shape.mask.left >= 0) inputs[b].first_key = diagonal - shape.mask.left;
        if (shape.mask.right >= 0) inputs[b].last_key = diagonal + shape.mask.right;
      } else if (shape.mask.mask != IOATTN_MASK_NONE) {
        inputs[b].last_key = diagonal;
      }
    }
    using Inputs = reference::LayerInputs<double>;
    a1 = {stacked(&Inputs::A1), padding};
    a2 = {stacked(&Inputs::A2), padding};
    a3 = {stacked(&Inputs::A3), padding};
    x = {inputs[0].X, padding};
    y = {inputs[0].Y, padding};
    d_o = {stacked(&Inputs::dO), padding};
    o = {entries * n, dv, padding};
    lse = {1, entries * n, 0};
    const std::size_t sizes[][2] = {
        {d, d}, {d, dv}, {entries * n, d}, {entries * m, d}, {entries * m, d}};
    gradients.struct_size = sizeof gradients;
    for (std::size_t i = 0; i < batch_output_count; ++i) {
      out[i] = {sizes[i][0], sizes[i][1], padding};
      gradients.*batch_outputs[i].data = out[i].data();
      gradients.*batch_outputs[i].stride = out[i].stride();
    }
    problem = layer_problem_of(shape.entry, a1, a2, a3, x, y);
    set_options(shape, &problem);
  }
  BatchCall(const BatchCall&) = delete;
  BatchCall& operator=(const BatchCall&) = delete;

  ioattn_status forward(const ioattn_options* options = nullptr) {
    return ioattn_layer_forward(&problem, options, o.data(), o.stride(), lse.data());
  }
  ioattn_status backward(const ioattn_options* options = nullptr) {
    return ioattn_layer_backward(&problem, options, d_o.data(), d_o.stride(), o.data(), o.stride(),
                                 lse.data(), &gradients);
  }
  // From the inputs alone.
  ioattn_status whole_backward(const ioattn_options* options = nullptr) {
    return ioattn_layer_backward(&problem, options, d_o.data(), d_o.stride(), nullptr, 0, nullptr,
                                 &gradients);
  }
  // dX alone, or all.
  void want(bool all) {
    for (std::size_t i = 1; i < batch_output_count; ++i)
      gradients.*batch_outputs[i].data = all ? out[i].data() : nullptr;
  }

  ioattn_layer_shape planned_shape() const {
    ioattn_layer_shape planned = {};
    planned.struct_size = sizeof planned;
    planned.n = problem.n;
    planned.m = problem.m;
    planned.d = problem.d;
    planned.dv = problem.dv;
    planned.dtype = problem.dtype;
    planned.tie = static_cast<ioattn_tie>(shape.entry.ties);
    planned.batch = problem.batch;
    planned.scale = problem.scale;
    planned.mask = problem.mask;
    planned.window_left = problem.window_left;
    planned.window_right = problem.window_right;
    return planned;
  }

  void reset_gradients() {
    for (Strided<T>& matrix : out) matrix.fill_with_pattern();
  }
  void reset() {
    o.fill_with_pattern();
    lse.fill_with_pattern();
    reset_gradients();
  }
  bool gradients_untouched() const {
    return std::all_of(out.begin(), out.end(),
                       [](const auto& matrix) { return matrix.untouched(); });
  }
  bool untouched() const { return o.untouched() && lse.untouched() && gradients_untouched(); }
  std::vector<T> outputs() const {
    std::vector<T> all = o.dense();
    const auto add = [&](const std::vector<T>& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    add(lse.dense());
    for (const Strided<T>& matrix : out) add(matrix.dense());
    return all;
  }

  void expect_forward() {
    prepare_reference();
    expect_near_oracle(o, expected_[0], units_[0], "O", shape);
    expect_near_oracle(lse, reference::transpose(expected_[1]), reference::transpose(units_[1]),
                       "LSE", shape);
  }
  void expect_backward() {
    prepare_reference();
    for (std::size_t i = 0; i < batch_output_count; ++i) {
      if (gradients.*batch_outputs[i].data == nullptr) {
        EXPECT_TRUE(out[i].untouched()) << batch_outputs[i].name;
      } else {
        expect_near_oracle(out[i], expected_[2 + i], units_[2 + i], batch_outputs[i].name, shape);
      }
    }
  }

  BatchShape shape;
  std::vector<reference::LayerInputs<double>> inputs;
  Strided<T> a1, a2, a3, x, y, d_o, o, lse;
  std::array<Strided<T>, batch_output_count> out;
  ioattn_layer_problem problem = {};
  ioattn_layer_gradients gradients = {};

 private:
  template <class Matrix>
  static void append(const Matrix& entry, Matrix* all) {
    all->cols = entry.cols;
    all->rows += entry.rows;
    all->values.insert(all->values.end(), entry.values.begin(), entry.values.end());
  }
  template <class Matrix>
  static void add(const Matrix& entry, Matrix* sum) {
    if (sum->values.empty()) *sum = Matrix(entry.rows, entry.cols);
    for (std::size_t i = 0; i < entry.values.size(); ++i) sum->values[i] += entry.values[i];
  }
  reference::Matrix<double> stacked(
      reference::Matrix<double> reference::LayerInputs<double>::*operand) const {
    reference::Matrix<double> all;
    for (const auto& entry : inputs) append(entry.*operand, &all);
    return all;
  }

  void prepare_reference() {
    if (!expected_.empty()) return;
    expected_.resize(2 + batch_output_count);
    units_.resize(2 + batch_output_count);
    for (const auto& entry : inputs) {
      const reference::LayerInputs<Wide> wide = reference::convert<Wide>(entry);
      const reference::Forward<Wide> forward = reference::forward(wide);
      const reference::Backward<Wide> backward = reference::backward(wide, forward);
      const reference::Gauge gauge = reference::make_gauge<T>(wide, forward);
      const auto note = [](bool is_sum, const auto& matrix, auto* all) {
        if (is_sum) {
          add(matrix, all);
        } else {
          append(matrix, all);
        }
      };
      const reference::Matrix<Wide>* values[] = {&forward.O,   &forward.L,    &backward.dX,
                                                 &backward.dY, &backward.dA1, &backward.dA2,
                                                 &backward.dA3};
      const reference::Matrix<double>* units[] = {&gauge.O,   &gauge.L,   &gauge.dX, &gauge.dY,
                                                  &gauge.dA1, &gauge.dA2, &gauge.dA3};
      for (std::size_t i = 0; i < std::size(values); ++i) {
        const bool is_sum = i >= 2 && !batch_outputs[i - 2].is_per_entry;
        note(is_sum, *values[i], &expected_[i]);
        note(is_sum, *units[i], &units_[i]);
      }
    }
  }

  std::vector<reference::Matrix<Wide>> expected_;
  std::vector<reference::Matrix<double>> units_;
};

}  // namespace ioattn_test
