#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "api/options.hpp"
#include "ioattn/ioattn.h"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "reference/oracle.hpp"
#include "schedule_names.hpp"

// A call of the C functions and its reference. Nothing of lib is included.
namespace ioattn_test {

namespace reference = ioattn_reference;
using reference::CaseShape;
using reference::Kind;
using reference::Ties;

inline std::string name_of(const CaseShape& shape) {
  static constexpr const char* ties[] = {"", ",tied", ",self"};
  return "n" + std::to_string(shape.n) + ",m" + std::to_string(shape.m) + ",d" +
         std::to_string(shape.d) + ",v" + std::to_string(shape.dv) +
         ties[static_cast<int>(shape.ties)];
}

// A matrix with `padding` elements between its rows. Inputs have NaN there, outputs a byte pattern.
template <class T>
class Strided {
 public:
  Strided() = default;
  Strided(std::size_t rows, std::size_t cols, std::size_t padding)
      : rows_(rows), cols_(cols), stride_(cols + padding), values_(rows * stride_) {
    fill_with_pattern();
  }
  Strided(const reference::Matrix<double>& from, std::size_t padding)
      : Strided(from.rows, from.cols, padding) {
    values_.assign(values_.size(), std::numeric_limits<T>::quiet_NaN());
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < cols_; ++j) values_[i * stride_ + j] = static_cast<T>(from(i, j));
  }

  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  T& at(std::size_t i, std::size_t j) { return values_[i * stride_ + j]; }
  std::int64_t stride() const { return static_cast<std::int64_t>(stride_); }

  void fill_with_pattern() {
    if (!values_.empty()) std::memset(values_.data(), pattern, values_.size() * sizeof(T));
  }
  bool untouched() const { return bytes_untouched(0, values_.size()); }
  bool padding_untouched() const {
    for (std::size_t i = 0; i < rows_; ++i)
      if (!bytes_untouched(i * stride_ + cols_, (i + 1) * stride_)) return false;
    return true;
  }
  std::vector<T> dense() const {
    std::vector<T> all;
    for (std::size_t i = 0; i < rows_; ++i)
      all.insert(all.end(), values_.data() + i * stride_, values_.data() + i * stride_ + cols_);
    return all;
  }

 private:
  static constexpr unsigned char pattern = 0x5a;  // a number, neither 0 nor NaN, in both types

  bool bytes_untouched(std::size_t first, std::size_t last) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values_.data());
    for (std::size_t i = first * sizeof(T); i < last * sizeof(T); ++i)
      if (bytes[i] != pattern) return false;
    return true;
  }

  std::size_t rows_ = 0, cols_ = 0, stride_ = 0;
  std::vector<T> values_;
};

// The problem of these operands, tied as the shape says.
template <class T>
ioattn_layer_problem layer_problem_of(const CaseShape& shape, const Strided<T>& a1,
                                      const Strided<T>& a2, const Strided<T>& a3,
                                      const Strided<T>& x, const Strided<T>& y) {
  ioattn_layer_problem problem = {};
  problem.struct_size = sizeof problem;
  problem.n = static_cast<std::int64_t>(shape.n);
  problem.m = static_cast<std::int64_t>(shape.m);
  problem.d = static_cast<std::int64_t>(shape.d);
  problem.dv = static_cast<std::int64_t>(shape.dv);
  problem.dtype = std::is_same_v<T, float> ? IOATTN_F32 : IOATTN_F64;
  problem.a1 = a1.data();
  problem.a2 = shape.ties == Ties::all ? a1.data() : a2.data();
  problem.a3 = shape.ties == Ties::none ? a3.data() : problem.a2;
  problem.x = x.data();
  problem.y = y.data();
  problem.a1_stride = a1.stride();
  problem.a2_stride = a2.stride();
  problem.a3_stride = a3.stride();
  problem.x_stride = x.stride();
  problem.y_stride = y.stride();
  return problem;
}

template <class T, class Wide, class Shape>
void expect_near_oracle(const Strided<T>& out, const reference::Matrix<Wide>& ref,
                        const reference::Matrix<double>& unit, const char* name,
                        const Shape& shape) {
  const reference::Worst worst =
      reference::worst_ratio(out.data(), static_cast<std::size_t>(out.stride()), ref, unit);
  EXPECT_TRUE(worst.passes()) << name << " of " << name_of(shape) << ": " << to_string(worst);
  EXPECT_TRUE(out.padding_untouched()) << name << " of " << name_of(shape);
}

// The call for dX alone.
inline ioattn_status backward_dx(const ioattn_layer_problem* problem, const ioattn_options* options,
                                 const void* d_o, std::int64_t d_o_stride, const void* o,
                                 std::int64_t o_stride, const void* lse, void* dx,
                                 std::int64_t dx_stride) {
  ioattn_layer_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  gradients.dx = dx;
  gradients.dx_stride = dx_stride;
  return ioattn_layer_backward(problem, options, d_o, d_o_stride, o, o_stride, lse, &gradients);
}

template <class T>
struct LayerCall {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

  LayerCall(const CaseShape& case_shape, std::size_t padding, Kind kind = Kind::normal,
            std::uint64_t seed = 1)
      : LayerCall(case_shape, padding, reference::make_case(kind, case_shape, seed)) {}
  // Inputs of one's own; tied ones are taken from A1 or A2.
  LayerCall(const CaseShape& case_shape, std::size_t padding,
            const reference::LayerInputs<double>& values)
      : shape(case_shape), inputs(values) {
    a1 = {inputs.A1, padding};
    a2 = {inputs.A2, padding};
    a3 = {inputs.A3, padding};
    x = {inputs.X, padding};
    y = {inputs.Y, padding};
    d_o = {inputs.dO, padding};
    o = {shape.n, shape.dv, padding};
    lse = {1, shape.n, 0};
    dx = {shape.d, shape.d, padding};
    problem = layer_problem_of(shape, a1, a2, a3, x, y);
  }
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  ioattn_status forward(const ioattn_options* options = nullptr) {
    return ioattn_layer_forward(&problem, options, o.data(), o.stride(), lse.data());
  }
  // From the O and LSE that forward left.
  ioattn_status backward(const ioattn_options* options = nullptr) {
    return backward_dx(&problem, options, d_o.data(), d_o.stride(), o.data(), o.stride(),
                       lse.data(), dx.data(), dx.stride());
  }
  // From the inputs alone.
  ioattn_status whole_backward(const ioattn_options* options = nullptr) {
    return backward_dx(&problem, options, d_o.data(), d_o.stride(), nullptr, 0, nullptr, dx.data(),
                       dx.stride());
  }

  void reset() {
    o.fill_with_pattern();
    lse.fill_with_pattern();
    dx.fill_with_pattern();
  }
  bool untouched() const { return o.untouched() && lse.untouched() && dx.untouched(); }
  std::vector<T> outputs() const {
    std::vector<T> all = o.dense();
    for (const std::vector<T>& more : {lse.dense(), dx.dense()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void expect_forward() {
    prepare_reference();
    expect_near_oracle(o, expected.O, gauge.O, "O", shape);
    expect_near_oracle(lse, reference::transpose(expected.L), reference::transpose(gauge.L), "LSE",
                       shape);
  }
  void expect_backward() {
    prepare_reference();
    expect_near_oracle(dx, gradients.dX, gauge.dX, "dX", shape);
  }

  CaseShape shape;
  reference::LayerInputs<double> inputs;
  Strided<T> a1, a2, a3, x, y, d_o, o, lse, dx;
  ioattn_layer_problem problem = {};
  reference::Forward<Wide> expected;
  reference::Backward<Wide> gradients;
  reference::Gauge gauge;

 private:
  void prepare_reference() {
    if (prepared_) return;
    const reference::LayerInputs<Wide> wide = reference::convert<Wide>(inputs);
    expected = reference::forward(wide);
    gradients = reference::backward(wide, expected);
    gauge = reference::make_gauge<T>(wide, expected);
    prepared_ = true;
  }
  bool prepared_ = false;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

using BothTypes = testing::Types<float, double>;

}  // namespace ioattn_test
