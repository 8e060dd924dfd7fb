#include "api/search/timed_sdpa.hpp"

#include "api/array_types.hpp"
#include "api/search/timed_numbers.hpp"

namespace ioattn::api {
namespace {

struct Counts : NumberCounts {
  Counts(const SdpaProblem& problem, const std::optional<SdpaSet>& set) {
    const SdpaShape& s = problem.shape;
    const index_t queries = s.all_queries(), keys = s.all_kv_heads() * s.m;
    const index_t bias = s.all_biases() * s.n * s.m;
    inputs = queries * s.d + keys * (s.d + s.dv) + bias;
    results = queries * s.dv;
    sums = queries;
    if (!set) return;
    inputs += queries * s.dv;
    gradients = queries * s.d + keys * (s.d + s.dv) + bias;
  }
};

template <class S, class G>
class Timed final : public TimedSdpa {
 public:
  Timed(const SdpaProblem& problem, const std::optional<SdpaSet>& set, int threads)
      : problem_(problem),
        set_(set),
        threads_(threads),
        inputs_(Counts(problem, set).inputs),
        results_(Counts(problem, set).results),
        sums_(Counts(problem, set).sums),
        wanted_(Counts(problem, set).gradients) {
    const SdpaShape& s = problem.shape;
    const auto take = [&](auto* from, index_t heads, index_t rows, index_t cols) {
      return from->take(s.batch, heads, rows, cols);
    };
    const auto take_bias = [&](auto* from) {
      return from->take(s.bias_batch, s.bias_heads, s.n, s.m);
    };
    q_ = take(&inputs_, s.heads, s.n, s.d);
    k_ = take(&inputs_, s.kv_heads, s.m, s.d);
    v_ = take(&inputs_, s.kv_heads, s.m, s.dv);
    if (s.has_bias()) bias_ = take_bias(&inputs_);
    o_ = take(&results_, s.heads, s.n, s.dv);
    lse_ = take(&sums_, s.heads, 1, s.n);
    if (set) {
      d_o_ = take(&inputs_, s.heads, s.n, s.dv);
      if (set->dQ) gradients_.dq = take(&wanted_, s.heads, s.n, s.d);
      if (set->dK) gradients_.dk = take(&wanted_, s.kv_heads, s.m, s.d);
      if (set->dV) gradients_.dv = take(&wanted_, s.kv_heads, s.m, s.dv);
      if (set->dBias) gradients_.d_bias = take_bias(&wanted_);
    }
    inputs_.fill();
  }

  Status forward(const plan::SdpaPlan& plan) {
    return sdpa_forward<S>(problem_, inputs(), plan, {threads_}, o_, lse_);
  }
  Status run(const plan::SdpaPlan& plan) override {
    if (!set_) return forward(plan);
    return sdpa_backward<S, G>(problem_, inputs(), {d_o_, o_, lse_}, plan, {threads_}, gradients_);
  }

 private:
  SdpaInputs<S> inputs() const { return {q_, k_, v_, bias_}; }

  SdpaProblem problem_;
  std::optional<SdpaSet> set_;
  int threads_;
  Numbers<S> inputs_, results_;
  Numbers<Compute<S>> sums_;
  Numbers<G> wanted_;
  TensorView<S> q_, k_, v_, bias_, o_, d_o_;
  TensorView<Compute<S>> lse_;
  SdpaGradients<G> gradients_;
};

}  // namespace

Status TimedSdpa::make(const SdpaProblem& problem, const std::optional<SdpaSet>& set, int threads,
                       const plan::SdpaPlan& forward, std::unique_ptr<TimedSdpa>* result) {
  return with_gradient_types(problem.dtype, set && set->in_f32, [&](auto of_array, auto of_sum) {
    return make_timed<Timed<decltype(of_array), decltype(of_sum)>>(problem, set, threads, forward,
                                                                   result);
  });
}

index_t TimedSdpa::bytes(const SdpaProblem& problem, const std::optional<SdpaSet>& set) {
  return Counts(problem, set).bytes(problem.dtype, set && set->in_f32);
}

}  // namespace ioattn::api
