#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.hpp"
#include "normal_numbers.hpp"
#include "schedules/sdpa/sdpa.hpp"

// The same SDPA problem stored in 16 bits and in f32, of numbers that both have.
namespace ioattn_test {

// A tensor with gaps between its rows and heads; whatever is not written stays NaN.
template <class S>
class GapTensor {
 public:
  GapTensor(ioattn::index_t batch, ioattn::index_t heads, ioattn::index_t rows,
            ioattn::index_t cols)
      : batch_(batch), heads_(heads), rows_(rows), cols_(cols) {
    values_.assign(std::size_t(batch * heads * rows * (cols + 3)), nan());
  }

  ioattn::TensorView<S> view() {
    const ioattn::index_t row = cols_ + 3;
    return {values_.data(), batch_, heads_, rows_, cols_, heads_ * rows_ * row, rows_ * row, row};
  }
  // Of float or S.
  template <class From>
  void set(const GapTensor<From>& from) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = ioattn::to_storage<S>(ioattn::to_compute(from.values()[i]));
  }
  template <class Random>
  void randomise(Random* random) {
    NormalNumbers<float> normal;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (ioattn::index_t(i) % (cols_ + 3) < cols_)
        values_[i] = ioattn::to_storage<S>(normal(*random));
  }
  void poison() { values_.assign(values_.size(), nan()); }
  const std::vector<S>& values() const { return values_; }
  std::vector<S>& values() { return values_; }

 private:
  static S nan() { return ioattn::to_storage<S>(std::nanf("")); }

  ioattn::index_t batch_, heads_, rows_, cols_;
  std::vector<S> values_;
};

template <class A>
bool same_bytes(const std::vector<A>& a, const std::vector<A>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0);
}

// The f32 numbers, rounded; NaN where nothing was written.
template <class S>
std::vector<S> rounded(const GapTensor<float>& from) {
  std::vector<S> to;
  for (const float x : from.values()) to.push_back(ioattn::from_float<S>(x));
  return to;
}

// Operands of type S and results of type G.
template <class S, class G = S>
struct HalfCase {
  using index_t = ioattn::index_t;

  explicit HalfCase(const ioattn::SdpaShape& s)
      : shape(s),
        q(s.batch, s.heads, s.n, s.d),
        k(s.batch, s.kv_heads, s.m, s.d),
        v(s.batch, s.kv_heads, s.m, s.dv),
        d_o(s.batch, s.heads, s.n, s.dv),
        o(s.batch, s.heads, s.n, s.dv),
        bias(s.bias_batch, s.bias_heads, s.n, s.m),
        lse(s.batch, s.heads, 1, s.n),
        dq(s.batch, s.heads, s.n, s.d),
        dk(s.batch, s.kv_heads, s.m, s.d),
        dv(s.batch, s.kv_heads, s.m, s.dv),
        d_bias(s.bias_batch, s.bias_heads, s.n, s.m) {}

  void randomise(unsigned seed) {
    std::mt19937 random(seed);
    for (GapTensor<S>* each : {&q, &k, &v, &d_o, &bias}) each->randomise(&random);
  }
  template <class Other>
  void set_inputs(const Other& from) {
    q.set(from.q);
    k.set(from.k);
    v.set(from.v);
    d_o.set(from.d_o);
    bias.set(from.bias);
  }
  // What the backward pass reads of the forward pass.
  template <class Other>
  void set_forward(const Other& from) {
    o.set(from.o);
    lse.set(from.lse);
  }
  // Where gradients are accumulated: the inputs are there before.
  void set_gradients(const ioattn::SdpaSet& set) {
    for (GapTensor<G>* each : {&dq, &dk, &dv, &d_bias}) each->poison();
    if (!set.accumulate) return;
    dq.set(q);
    dk.set(k);
    dv.set(v);
    d_bias.set(bias);
  }

  struct Run {
    const ioattn::kernels::KernelTable<float>* kernels;
    int threads = 1;
    ioattn::Observer* observer = nullptr;
    ioattn::OverflowCounts* overflows = nullptr;
  };
  ioattn::Status forward(const ioattn::Blocks& blocks, const Run& run, bool wants_o = true,
                         bool wants_lse = true) {
    ioattn::schedules::SdpaForwardTask<S> task;
    fill(run, &task);
    if (wants_o) task.o = o.view();
    if (wants_lse) task.lse = lse.view();
    task.blocks = blocks;
    return ioattn::schedules::sdpa_forward(task);
  }
  ioattn::Status backward(const ioattn::SdpaSet& set, const ioattn::SdpaBlocks& blocks,
                          const Run& run) {
    set_gradients(set);
    ioattn::schedules::SdpaBackwardTask<S> task;
    fill(run, &task);
    task.d_o = d_o.view();
    task.o = o.view();
    task.lse = lse.view();
    ioattn::SdpaGradients<G> out;
    if (set.dQ) out.dq = dq.view();
    if (set.dK) out.dk = dk.view();
    if (set.dV) out.dv = dv.view();
    if (set.dBias) out.d_bias = d_bias.view();
    out.accumulate = set.accumulate;
    if constexpr (std::is_same_v<G, float>) {
      task.out = out;
    } else {
      task.rounded = out;
    }
    task.blocks = blocks;
    return ioattn::schedules::sdpa_backward(task);
  }

  ioattn::SdpaShape shape;
  float scale = 0.37F;
  GapTensor<S> q, k, v, d_o, o, bias;
  GapTensor<float> lse;
  GapTensor<G> dq, dk, dv, d_bias;

 private:
  template <class Task>
  void fill(const Run& run, Task* task) {
    task->shape = shape;
    task->in = {q.view(), k.view(), v.view(), bias.view()};
    task->scale = scale;
    task->kernels = run.kernels;
    task->threads = run.threads;
    task->observer = run.observer;
    task->overflows = run.overflows;
  }
};

}  // namespace ioattn_test
