#include <algorithm>

#include "api/run/sdpa.hpp"
#include "theory/sdpa_bounds.hpp"
#include "tune/files/aligned_words.hpp"
#include "tune/traffic/traffic_case.hpp"

namespace ioattn::tune {
namespace {

constexpr SdpaSet all_gradients = {true, true, true};

template <class T>
class SdpaTraffic final : public TrafficCase {
 public:
  SdpaTraffic(Pass pass, const SdpaProblem& problem) : pass_(pass), problem_(problem) {
    const SdpaShape& s = problem_.shape;
    const index_t queries = s.all_heads() * s.n, keys = s.all_kv_heads() * s.m;
    ArbitraryValues<T> random;
    q_ = random.words(queries * s.d);
    k_ = random.words(keys * s.d);
    v_ = random.words(keys * s.dv);
    o_ = AlignedWords<T>(queries * s.dv);
    lse_ = AlignedWords<Compute<T>>(queries);
    if (pass != Pass::backward) return;
    d_o_ = random.words(queries * s.dv);
    dq_ = AlignedWords<T>(queries * s.d);
    dk_ = AlignedWords<T>(keys * s.d);
    dv_ = AlignedWords<T>(keys * s.dv);
    require(api::plan_sdpa(problem_, std::nullopt, {}, &plan_));
    run_forward(1, nullptr, nullptr);
  }

  std::string problem_text() const override { return to_text(problem_); }
  DType dtype() const override { return problem_.dtype; }
  Pass pass() const override { return pass_; }

  TrafficPlan plan(const api::RunOptions& options) override {
    plan::Estimate estimate;
    require(api::plan_sdpa(problem_, set(), options, &plan_, &estimate));
    TrafficPlan result;
    result.level = plan_.level;
    result.M = estimate.M;
    result.text = to_text(plan_);
    result.schedule = name_of(pass_ == Pass::forward ? forward_schedule(plan_.blocks.rows)
                                                     : plan_.blocks.by_keys);
    result.formula = estimate.cost.total();
    result.mask = problem_.shape.mask;
    const index_t M = std::max(result.M, result.formula.footprint);
    const bool forward = pass_ == Pass::forward;
    const theory::BoundSet bounds =
        forward ? theory::sdpa_forward_bounds(problem_.shape, M)
                : theory::sdpa_backward_bounds(problem_.shape, all_gradients, M);
    result.bound = bounds.best(forward ? theory::AlgorithmClass::F
                                       : theory::class_of(all_gradients, plan_.blocks));
    result.compulsory = bounds.compulsory;
    return result;
  }

  void take_plan(const std::string& text) override {
    std::string error;
    if (!plan::parse_sdpa_plan(text, set(), &plan_, &error)) throw UsageError(error);
  }

  void run_on(int threads, Observer* observer, const kernels::Kernels* kernels) override {
    if (pass_ == Pass::forward) {
      run_forward(threads, observer, kernels);
      return;
    }
    const SdpaShape& s = problem_.shape;
    const api::SdpaForwardResults<T> forward = {of_queries<const T>(d_o_, s.dv),
                                                of_queries<const T>(o_, s.dv),
                                                lse_view<const Compute<T>>()};
    const SdpaGradients<T> gradients = {of_queries<T>(dq_, s.d), of_keys<T>(dk_, s.d),
                                        of_keys<T>(dv_, s.dv)};
    require(api::sdpa_backward<T>(problem_, inputs(), forward, plan_,
                                  {threads, observer, nullptr, kernels}, gradients));
  }

  Isa isa() const override { return plan_.tile.isa; }
  std::uint64_t result_bits() const override {
    return pass_ == Pass::forward ? o_.hash() ^ lse_.hash()
                                  : dq_.hash() ^ (3 * dk_.hash()) ^ (5 * dv_.hash());
  }

 private:
  std::optional<SdpaSet> set() const {
    return pass_ == Pass::forward ? std::nullopt : std::optional(all_gradients);
  }
  template <class U>
  TensorView<U> of_queries(const AlignedWords<T>& words, index_t cols) const {
    const SdpaShape& s = problem_.shape;
    return dense_tensor<U>(words.data(), s.batch, s.heads, s.n, cols);
  }
  template <class U>
  TensorView<U> of_keys(const AlignedWords<T>& words, index_t cols) const {
    const SdpaShape& s = problem_.shape;
    return dense_tensor<U>(words.data(), s.batch, s.kv_heads, s.m, cols);
  }
  template <class U>
  TensorView<U> lse_view() const {
    const SdpaShape& s = problem_.shape;
    return dense_tensor<U>(lse_.data(), s.batch, s.heads, 1, s.n);
  }
  SdpaInputs<T> inputs() const {
    const SdpaShape& s = problem_.shape;
    return {of_queries<const T>(q_, s.d), of_keys<const T>(k_, s.d), of_keys<const T>(v_, s.dv)};
  }
  void run_forward(int threads, Observer* observer, const kernels::Kernels* kernels) {
    require(api::sdpa_forward<T>(problem_, inputs(), plan_, {threads, observer, nullptr, kernels},
                                 of_queries<T>(o_, problem_.shape.dv), lse_view<Compute<T>>()));
  }

  Pass pass_;
  SdpaProblem problem_;
  AlignedWords<T> q_, k_, v_, o_, d_o_, dq_, dk_, dv_;
  AlignedWords<Compute<T>> lse_;
  plan::SdpaPlan plan_;
};

}  // namespace

std::unique_ptr<TrafficCase> sdpa_case(Pass pass, const SdpaProblem& problem) {
  const SdpaShape& s = problem.shape;
  if (s.has_bias()) throw UsageError("passes with a bias are not measured");
  return with_dtype(problem.dtype, [&](auto zero) -> std::unique_ptr<TrafficCase> {
    return std::make_unique<SdpaTraffic<decltype(zero)>>(pass, problem);
  });
}

}  // namespace ioattn::tune
