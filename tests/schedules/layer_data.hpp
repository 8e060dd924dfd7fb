#pragma once

#include <limits>
#include <random>
#include <vector>

#include "base/layer_inputs.hpp"
#include "normal_numbers.hpp"
#include "schedules/schedules.hpp"

namespace ioattn_test {

// Inputs of a layer problem with row padding that is NaN, and outputs that are poisoned with NaN.
template <class T>
class LayerData {
 public:
  LayerData(const ioattn::LayerShape& shape, ioattn::index_t padding, std::mt19937& engine)
      : shape_(shape), padding_(padding) {
    const auto [n, m, d, e, tie, mask] = shape;
    a1_ = random(n, d, engine);
    a2_ = random(m, d, engine);
    a3_ = random(m, d, engine);
    x_ = random(d, d, engine);
    y_ = random(d, e, engine);
    d_o_ = random(n, e, engine);
    o_ = poison((n - 1) * (e + padding) + e);
    lse_ = poison(n);
    dx_ = poison((d - 1) * (d + padding) + d);
  }

  ioattn::LayerInputs<T> inputs() const {
    const auto [n, m, d, e, tie, mask] = shape_;
    using ioattn::Tie;
    ioattn::LayerInputs<T> in = {view(a1_, n, d), view(a2_, m, d), view(a3_, m, d), view(x_, d, d),
                                 view(y_, d, e)};
    if (tie != Tie::none) in.a3 = in.a2;
    if (tie == Tie::all) in.a2 = in.a3 = in.a1;
    in.mask = mask;
    return in;
  }
  ioattn::MatrixView<const T> d_o() const { return view(d_o_, shape_.n, shape_.dv); }
  ioattn::MatrixView<T> o() { return {o_.data(), shape_.n, shape_.dv, shape_.dv + padding_}; }
  T* lse() { return lse_.data(); }
  ioattn::MatrixView<T> dx() { return {dx_.data(), shape_.d, shape_.d, shape_.d + padding_}; }

  void poison_outputs(ioattn::Pass pass) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const auto poison = [nan](std::vector<T>* output) { output->assign(output->size(), nan); };
    if (pass == ioattn::Pass::backward) {
      poison(&dx_);
    } else {
      poison(&o_);
      poison(&lse_);
    }
  }

 private:
  std::vector<T> poison(ioattn::index_t size) const {
    return std::vector<T>(static_cast<std::size_t>(size), std::numeric_limits<T>::quiet_NaN());
  }
  std::vector<T> random(ioattn::index_t rows, ioattn::index_t cols, std::mt19937& engine) const {
    std::vector<T> values = poison((rows - 1) * (cols + padding_) + cols);
    NormalNumbers<double> normal;
    for (ioattn::index_t i = 0; i < rows; ++i)
      for (ioattn::index_t j = 0; j < cols; ++j)
        values[static_cast<std::size_t>(i * (cols + padding_) + j)] =
            static_cast<T>(normal(engine));
    return values;
  }
  ioattn::MatrixView<const T> view(const std::vector<T>& values, ioattn::index_t rows,
                                   ioattn::index_t cols) const {
    return {values.data(), rows, cols, cols + padding_};
  }

  ioattn::LayerShape shape_;
  ioattn::index_t padding_;
  std::vector<T> a1_, a2_, a3_, x_, y_, d_o_, o_, lse_, dx_;
};

// One pass of a schedule; a backward pass takes O and LSE from the data, as a forward pass left
// them.
template <class T>
ioattn::Status run_pass(ioattn::Pass pass, ioattn::Schedule schedule,
                        const ioattn::LayerShape& shape, const ioattn::Blocks& blocks,
                        const ioattn::kernels::KernelTable<T>& kernels, int threads,
                        ioattn::Observer* observer, LayerData<T>* data) {
  using namespace ioattn::schedules;
  if (pass == ioattn::Pass::forward) {
    return run_forward(
        schedule,
        ForwardTask<T>{
            {&kernels, threads, observer}, shape, data->inputs(), data->o(), data->lse(), blocks});
  }
  return run_backward(schedule, BackwardTask<T>{{&kernels, threads, observer},
                                                shape,
                                                data->inputs(),
                                                data->d_o(),
                                                data->o(),
                                                data->lse(),
                                                data->dx(),
                                                blocks});
}

}  // namespace ioattn_test
