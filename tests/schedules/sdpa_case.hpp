#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "reference/gauge.hpp"
#include "reference/strided_tensor.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/sdpa/sdpa.hpp"

namespace ioattn_test {

namespace ref = ioattn_reference;

template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
double floor_of() {
  return double(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
}

template <class T, class Memory>
ioattn::TensorView<T> view(Memory& memory, ioattn::index_t batch, ioattn::index_t heads,
                           ioattn::index_t rows, ioattn::index_t cols) {
  const auto strides = memory.strides();
  return {memory.data(), batch, heads, rows, cols, strides[0], strides[1], strides[2]};
}

// A problem in memory, O and LSE of which are the oracle's where the backward pass reads them.
template <class T>
class SdpaCase {
 public:
  using Wide = WideOf<T>;

  SdpaCase(const ioattn::SdpaShape& shape, ref::Layout layout, std::uint64_t seed, double scale = 0)
      : SdpaCase(shape, layout, inputs_for(shape, seed, scale)) {}
  SdpaCase(const ioattn::SdpaShape& shape, ref::Layout layout,
           const ref::SdpaInputs<double>& inputs)
      : inputs_(inputs),
        expected_(ref::sdpa(ref::convert<Wide>(inputs), floor_of<T>())),
        shape_(shape),
        q_(inputs.Q, layout),
        k_(inputs.K, layout),
        v_(inputs.V, layout),
        d_o_(inputs.dO, layout),
        o_(like(expected_.O, layout)),
        lse_(like(expected_.L, ref::Layout::bhsd)),
        dq_(like(expected_.dQ, layout)),
        dk_(like(expected_.dK, layout)),
        dv_(like(expected_.dV, layout)),
        bias_(inputs.bias, layout),
        d_bias_(like(expected_.dBias, layout)) {}

  struct Run {
    const ioattn::kernels::KernelTable<T>* kernels;
    int threads = 1;
    ioattn::Observer* observer = nullptr;
  };

  ioattn::Status forward(const ioattn::Blocks& blocks, const Run& run, bool o = true,
                         bool lse = true) {
    ioattn::schedules::SdpaForwardTask<T> task;
    fill(run, &task);
    if (o) task.o = queries(o_, shape_.dv);
    if (lse) task.lse = rows_of_lse();
    task.blocks = blocks;
    return ioattn::schedules::sdpa_forward(task);
  }

  // From the oracle's O and LSE.
  ioattn::Status backward(const ioattn::SdpaSet& set, const ioattn::SdpaBlocks& blocks,
                          const Run& run) {
    o_.set(expected_.O);
    lse_.set(expected_.L);
    return backward_from_forward(set, blocks, run);
  }
  // From what forward left.
  ioattn::Status backward_from_forward(const ioattn::SdpaSet& set, const ioattn::SdpaBlocks& blocks,
                                       const Run& run) {
    for (ref::StridedTensor<T>* out : {&dq_, &dk_, &dv_, &d_bias_}) out->poison();
    if (set.accumulate) {
      d_bias_.set(inputs_.bias);
      dq_.set(inputs_.Q);
      dk_.set(inputs_.K);
      dv_.set(inputs_.V);
    }
    ioattn::schedules::SdpaBackwardTask<T> task;
    fill(run, &task);
    task.d_o = queries(d_o_, shape_.dv);
    task.o = queries(o_, shape_.dv);
    task.lse = rows_of_lse();
    if (set.dQ) task.out.dq = queries(dq_, shape_.d);
    if (set.dK) task.out.dk = keys(dk_, shape_.d);
    if (set.dV) task.out.dv = keys(dv_, shape_.dv);
    if (set.dBias) task.out.d_bias = biases(d_bias_);
    task.out.accumulate = set.accumulate;
    task.blocks = blocks;
    return ioattn::schedules::sdpa_backward(task);
  }

  void check_forward(bool o, bool lse, double allowed) const {
    check("O", o, o_, expected_.O, expected_.O_unit, allowed);
    check("LSE", lse, lse_, expected_.L, expected_.L_unit, allowed);
  }
  void check_backward(const ioattn::SdpaSet& set, double allowed) const {
    const auto expect = [&](const char* name, bool wanted, const ref::StridedTensor<T>& out,
                            ref::Tensor<Wide> value, ref::Tensor<double> unit,
                            const ref::Tensor<double>& before) {
      if (!wanted) {
        EXPECT_EQ(out.numbers(), set.accumulate ? value.values.size() : 0) << name;
        return;
      }
      for (std::size_t i = 0; set.accumulate && i < value.values.size(); ++i) {
        value.values[i] += static_cast<Wide>(before.values[i]);
        unit.values[i] += std::fabs(before.values[i]);
      }
      check(name, wanted, out, value, unit, allowed);
    };
    expect("dQ", set.dQ, dq_, expected_.dQ, expected_.dQ_unit, inputs_.Q);
    expect("dK", set.dK, dk_, expected_.dK, expected_.dK_unit, inputs_.K);
    expect("dV", set.dV, dv_, expected_.dV, expected_.dV_unit, inputs_.V);
    expect("dBias", set.dBias, d_bias_, expected_.dBias, expected_.dBias_unit, inputs_.bias);
  }

  // How far off they are (gauge.hpp), each of which was wanted: O, LSE, dQ, dK, dV.
  std::array<double, 5> ratios() const {
    return {ref::worst_ratio(o_.dense(), expected_.O, expected_.O_unit),
            ref::worst_ratio(lse_.dense(), expected_.L, expected_.L_unit),
            ref::worst_ratio(dq_.dense(), expected_.dQ, expected_.dQ_unit),
            ref::worst_ratio(dk_.dense(), expected_.dK, expected_.dK_unit),
            ref::worst_ratio(dv_.dense(), expected_.dV, expected_.dV_unit)};
  }

  // All outputs, head after head.
  std::vector<T> outputs() const {
    std::vector<T> all;
    for (const ref::StridedTensor<T>* out : {&o_, &lse_, &dq_, &dk_, &dv_, &d_bias_}) {
      const std::vector<T> dense = out->dense().values;
      all.insert(all.end(), dense.begin(), dense.end());
    }
    return all;
  }
  void poison() {
    for (ref::StridedTensor<T>* out : {&o_, &lse_, &dq_, &dk_, &dv_, &d_bias_}) out->poison();
  }
  const ref::StridedTensor<T>& o() const { return o_; }
  const ref::StridedTensor<T>& lse() const { return lse_; }
  const ref::StridedTensor<T>& dq() const { return dq_; }
  const ref::StridedTensor<T>& dk() const { return dk_; }
  const ref::StridedTensor<T>& dv() const { return dv_; }

  static ref::SdpaInputs<double> inputs_for(const ioattn::SdpaShape& s, std::uint64_t seed,
                                            double scale) {
    const auto size = [](ioattn::index_t x) { return std::size_t(x); };
    ref::SdpaInputs<double> in =
        ref::random_sdpa(size(s.batch), size(s.heads), size(s.kv_heads), size(s.n), size(s.m),
                         size(s.d), size(s.dv), seed);
    if (scale != 0) in.scale = scale;
    if (s.has_bias()) {
      in.bias = ref::random_sdpa(size(s.bias_batch), size(s.bias_heads), 1, size(s.n), 1, size(s.m),
                                 1, seed + 1)
                    .Q;
    }
    if (s.mask.first > -ioattn::Mask::unbounded) in.first_key = s.mask.first;
    if (s.mask.last < ioattn::Mask::unbounded) in.last_key = s.mask.last;
    return in;
  }

 private:
  static ref::StridedTensor<T> like(const ref::Tensor<Wide>& t, ref::Layout layout) {
    return {t.batch, t.heads, t.rows, t.cols, layout};
  }
  ioattn::TensorView<T> rows_of_lse() {
    return ioattn::dense_tensor(lse_.data(), shape_.batch, shape_.heads, 1, shape_.n);
  }
  template <class Memory>
  auto queries(Memory& memory, ioattn::index_t cols) {
    return view<std::remove_pointer_t<decltype(memory.data())>>(memory, shape_.batch, shape_.heads,
                                                                shape_.n, cols);
  }
  template <class Memory>
  auto keys(Memory& memory, ioattn::index_t cols) {
    return view<std::remove_pointer_t<decltype(memory.data())>>(memory, shape_.batch,
                                                                shape_.kv_heads, shape_.m, cols);
  }
  ioattn::TensorView<T> biases(ref::StridedTensor<T>& memory) {
    return view<T>(memory, shape_.bias_batch, shape_.bias_heads, shape_.n, shape_.m);
  }
  template <class Task>
  void fill(const Run& run, Task* task) {
    task->shape = shape_;
    task->in = {queries(q_, shape_.d), keys(k_, shape_.d), keys(v_, shape_.dv)};
    task->in.bias = biases(bias_);
    task->scale = static_cast<T>(inputs_.scale);
    task->kernels = run.kernels;
    task->threads = run.threads;
    task->observer = run.observer;
  }
  void check(const char* name, bool wanted, const ref::StridedTensor<T>& out,
             const ref::Tensor<Wide>& value, const ref::Tensor<double>& unit,
             double allowed) const {
    EXPECT_EQ(out.numbers(), wanted ? value.values.size() : 0) << name;
    if (wanted) {
      EXPECT_LE(ref::worst_ratio(out.dense(), value, unit), allowed) << name;
    }
  }

  ref::SdpaInputs<double> inputs_;
  ref::SdpaResults<Wide> expected_;
  ioattn::SdpaShape shape_;
  ref::StridedTensor<T> q_, k_, v_, d_o_, o_, lse_, dq_, dk_, dv_, bias_, d_bias_;
};

}  // namespace ioattn_test
