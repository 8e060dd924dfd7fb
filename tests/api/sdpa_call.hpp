#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

#include "api/layer_call.hpp"
#include "api/options.hpp"
#include "ioattn/ioattn.h"
#include "reference/strided_tensor.hpp"

// A call of the C functions of SDPA and its reference. Nothing of lib is included.
namespace ioattn_test {

namespace reference = ioattn_reference;
using reference::Layout;

struct SdpaSizes {
  std::size_t batch, heads, kv_heads, n, m, d, dv;
};

// The mask of a problem, as it documents it.
inline void set_mask(const ioattn_sdpa_problem& p, reference::SdpaInputs<double>* inputs) {
  const bool bottom =
      p.mask == IOATTN_MASK_CAUSAL_BOTTOM_RIGHT || p.mask == IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  const bool window =
      p.mask == IOATTN_MASK_WINDOW_TOP_LEFT || p.mask == IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  const long long shift = bottom ? p.m - p.n : 0;
  inputs->q_offset = p.q_offset;
  inputs->k_offset = p.k_offset;
  if (p.mask == IOATTN_MASK_NONE) return;
  if (!window || p.window_right >= 0) inputs->last_key = shift + (window ? p.window_right : 0);
  if (window && p.window_left >= 0) inputs->first_key = shift - p.window_left;
}

template <class T>
class SdpaCall {
 public:
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  using Tensors = reference::StridedTensor<T>;

  explicit SdpaCall(const SdpaSizes& sizes, Layout layout = Layout::bhsd, std::uint64_t seed = 1)
      : SdpaCall(reference::random_sdpa(sizes.batch, sizes.heads, sizes.kv_heads, sizes.n, sizes.m,
                                        sizes.d, sizes.dv, seed),
                 layout) {}
  SdpaCall(const reference::SdpaInputs<double>& values, Layout layout)
      : inputs(values),
        q(values.Q, layout),
        k(values.K, layout),
        v(values.V, layout),
        d_o(values.dO, layout),
        o(values.Q.batch, values.Q.heads, values.Q.rows, values.V.cols, layout),
        // Rows of LSE follow each other; heads need not.
        lse(values.Q.batch, values.Q.heads, 1, values.Q.rows,
            layout == Layout::bshd ? Layout::bhsd : layout),
        dq(values.Q.batch, values.Q.heads, values.Q.rows, values.Q.cols, layout),
        dk(values.K.batch, values.K.heads, values.K.rows, values.K.cols, layout),
        dv(values.V.batch, values.V.heads, values.V.rows, values.V.cols, layout) {
    const auto size = [](std::size_t x) { return static_cast<std::int64_t>(x); };
    problem.struct_size = sizeof problem;
    problem.batch = size(values.Q.batch);
    problem.heads = size(values.Q.heads);
    problem.kv_heads = size(values.K.heads);
    problem.n = size(values.Q.rows);
    problem.m = size(values.K.rows);
    problem.d = size(values.Q.cols);
    problem.dv = size(values.V.cols);
    problem.dtype = std::is_same_v<T, float> ? IOATTN_F32 : IOATTN_F64;
    problem.q = q.data();
    problem.k = k.data();
    problem.v = v.data();
    std::copy_n(q.strides().begin(), 3, problem.q_stride);
    std::copy_n(k.strides().begin(), 3, problem.k_stride);
    std::copy_n(v.strides().begin(), 3, problem.v_stride);
    gradients.struct_size = sizeof gradients;
    gradients.dq = dq.data();
    gradients.dk = dk.data();
    gradients.dv = dv.data();
    std::copy_n(dq.strides().begin(), 3, gradients.dq_stride);
    std::copy_n(dk.strides().begin(), 3, gradients.dk_stride);
    std::copy_n(dv.strides().begin(), 3, gradients.dv_stride);
  }
  SdpaCall(const SdpaCall&) = delete;
  SdpaCall& operator=(const SdpaCall&) = delete;

  ioattn_status forward(const ioattn_options* options = nullptr) {
    return ioattn_sdpa_forward(&problem, options, o.data(), o.strides().data(), lse.data(),
                               lse.strides().data());
  }
  // From the O and LSE that forward left.
  ioattn_status backward(const ioattn_options* options = nullptr) {
    return ioattn_sdpa_backward(&problem, options, d_o.data(), d_o.strides().data(), o.data(),
                                o.strides().data(), lse.data(), lse.strides().data(), &gradients);
  }

  std::vector<Tensors*> gradient_tensors() { return {&dq, &dk, &dv}; }
  std::vector<Tensors*> outputs() { return {&o, &lse, &dq, &dk, &dv}; }
  void poison() {
    for (Tensors* out : outputs()) out->poison();
  }
  bool untouched() {
    std::size_t numbers = 0;
    for (Tensors* out : outputs()) numbers += out->numbers();
    return numbers == 0;
  }
  bool gradients_untouched() { return dq.numbers() + dk.numbers() + dv.numbers() == 0; }
  std::vector<T> values() {
    std::vector<T> all;
    for (Tensors* out : outputs()) {
      const std::vector<T> dense = out->dense().values;
      all.insert(all.end(), dense.begin(), dense.end());
    }
    return all;
  }

  void expect_forward() {
    prepare_reference();
    check("O", o, expected.O, expected.O_unit);
    const auto [L, unit] = std::pair(as_row(expected.L), as_row(expected.L_unit));
    check("LSE", lse, L, unit);
  }
  void expect_backward() {
    prepare_reference();
    check("dQ", dq, expected.dQ, expected.dQ_unit);
    check("dK", dk, expected.dK, expected.dK_unit);
    check("dV", dv, expected.dV, expected.dV_unit);
  }

  reference::SdpaInputs<double> inputs;
  Tensors q, k, v, d_o, o, lse, dq, dk, dv;
  ioattn_sdpa_problem problem = {};
  ioattn_sdpa_gradients gradients = {};
  reference::SdpaResults<Wide> expected;

 private:
  void prepare_reference() {
    if (!expected.O.values.empty() || !expected.L.values.empty()) return;
    set_mask(problem, &inputs);
    if (problem.scale != 0) inputs.scale = problem.scale;
    const double floor = double(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
    expected = reference::sdpa(reference::convert<Wide>(inputs), floor);
  }
  template <class U>
  static reference::Tensor<U> as_row(reference::Tensor<U> column) {
    std::swap(column.rows, column.cols);
    return column;
  }
  static void check(const char* name, const Tensors& out, const reference::Tensor<Wide>& value,
                    const reference::Tensor<double>& unit) {
    EXPECT_LE(reference::worst_ratio(out.dense(), value, unit), 16) << name;
    EXPECT_EQ(out.numbers(), value.values.size()) << name;
  }
};

}  // namespace ioattn_test
