#include "api/search/timed_layer.hpp"

#include "api/array_types.hpp"
#include "api/search/timed_numbers.hpp"
#include "plan/layer/layer_candidates.hpp"

namespace ioattn::api {
namespace {

// Of one entry.
struct Counts : NumberCounts {
  Counts(const LayerProblem& problem, const std::optional<GradientSet>& set) {
    const auto [n, m, d, e, tie, mask] = problem.shape;
    const index_t keys = tie == Tie::all ? 0 : tie == Tie::kv ? 1 : 2;
    inputs = n * d + keys * m * d + d * d + d * e;
    results = n * e;
    sums = n;
    if (!set) return;
    const index_t weights = (set->dW_Q ? 1 : 0) + (set->dW_K ? 1 : 0);
    inputs += n * e + weights * d * set->dk;
    gradients = gradient_numbers(problem.shape, *set, 1);
  }
};

template <class S, class G>
class Timed final : public TimedLayer {
 public:
  Timed(const LayerProblem& problem, const std::optional<GradientSet>& set, int threads)
      : set_(set),
        threads_(threads),
        tie_(problem.shape.tie),
        numbers_(Counts(problem, set).inputs),
        results_(Counts(problem, set).results),
        sums_(Counts(problem, set).sums),
        wanted_(Counts(problem, set).gradients) {
    const auto [n, m, d, e, tie, mask] = problem.shape;
    const MatrixView<S> x = numbers_.take(d, d);
    inputs_.x = x;
    inputs_.y = numbers_.take(d, e);
    inputs_.a1 = numbers_.take(n, d);
    inputs_.a2 = tie == Tie::all ? inputs_.a1 : MatrixView<const S>(numbers_.take(m, d));
    inputs_.a3 = tie == Tie::none ? MatrixView<const S>(numbers_.take(m, d)) : inputs_.a2;
    inputs_.mask = mask;
    inputs_.scale = problem.scale;
    o_ = results_.take(n, e);
    lse_ = sums_.take(1, n);
    if (set) {
      d_o_ = numbers_.take(n, e);
      if (set->dW_Q) gradients_.w_k = numbers_.take(d, set->dk);
      if (set->dW_K) gradients_.w_q = numbers_.take(d, set->dk);
      const auto take = [&](index_t rows, index_t cols) { return wanted_.take(rows, cols); };
      take_gradients(problem.shape, *set, 1, take, &gradients_);
    }
    numbers_.fill();
    // So that scores are about 1: weights of the softmax are no denormals.
    Numbers<S>::fill(x, 1 / static_cast<double>(d));
  }

  Status forward(const plan::LayerPlan& plan) {
    return layer_forward<S>(inputs_, plan::pass_of(plan), {threads_}, o_, lse_.data, tie_);
  }
  Status run(const plan::LayerPlan& plan) override {
    if (!set_) return forward(plan);
    return layer_gradients<S, G>(inputs_, d_o_, o_, lse_.data, plan, {threads_}, gradients_, tie_);
  }

 private:
  std::optional<GradientSet> set_;
  int threads_;
  Tie tie_;
  Numbers<S> numbers_, results_;
  Numbers<Compute<S>> sums_;
  Numbers<G> wanted_;
  LayerInputs<S> inputs_;
  MatrixView<S> o_, d_o_;
  MatrixView<Compute<S>> lse_;
  LayerGradients<G, S> gradients_;
};

}  // namespace

Status TimedLayer::make(const LayerProblem& problem, const std::optional<GradientSet>& set,
                        int threads, const plan::LayerPlan& forward,
                        std::unique_ptr<TimedLayer>* result) {
  return with_gradient_types(problem.dtype, set && set->in_f32, [&](auto of_array, auto of_sum) {
    return make_timed<Timed<decltype(of_array), decltype(of_sum)>>(problem, set, threads, forward,
                                                                   result);
  });
}

index_t TimedLayer::bytes(const LayerProblem& problem, const std::optional<GradientSet>& set) {
  return Counts(problem, set).bytes(problem.dtype, set && set->in_f32);
}

}  // namespace ioattn::api
