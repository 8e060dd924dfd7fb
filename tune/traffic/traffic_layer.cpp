#include <cmath>

#include "api/array_types.hpp"
#include "api/run/layer.hpp"
#include "tune/files/aligned_words.hpp"
#include "tune/files/npy.hpp"
#include "tune/options/options.hpp"
#include "tune/passes/measure.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/traffic/traffic_case.hpp"

namespace ioattn::tune {
namespace {

// The operands of a layer, each in memory of its own.
template <class T>
struct LayerWords {
  std::shared_ptr<AlignedWords<T>> a1, a2, a3;  // tied operands are one
  AlignedWords<T> x, y, d_o;
};

template <class T>
LayerWords<T> arbitrary_layer(const LayerProblem& problem) {
  const auto [n, m, d, e, tie, mask] = problem.shape;
  ArbitraryValues<T> random;
  const auto shared = [&](index_t rows, index_t cols) {
    return std::make_shared<AlignedWords<T>>(random.words(rows * cols));
  };
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  LayerWords<T> words;
  words.a1 = shared(problem.batch * n, d);
  words.a2 = tie == Tie::all ? words.a1 : shared(problem.batch * m, d);
  words.a3 = tie == Tie::none ? shared(problem.batch * m, d) : words.a2;
  words.x = random.words(d * d, scale);
  words.y = random.words(d * e, scale);
  words.d_o = random.words(problem.batch * n * e);
  return words;
}

template <class T>
LayerWords<T> layer_of(const LayerFiles<T>& files) {
  const auto copy = [](const Matrix<T>& from) {
    return AlignedWords<T>(from.rows * from.cols, from.data.data());
  };
  const auto shared = [&](const Matrix<T>& from) {
    return std::make_shared<AlignedWords<T>>(copy(from));
  };
  LayerWords<T> words;
  words.a1 = shared(*files.a1);
  words.a2 = files.a2 == files.a1 ? words.a1 : shared(*files.a2);
  words.a3 = files.a3 == files.a1 ? words.a1 : files.a3 == files.a2 ? words.a2 : shared(*files.a3);
  words.x = copy(files.x);
  words.y = copy(files.y);
  words.d_o = copy(files.d_o);
  return words;
}

template <class T>
class LayerTraffic final : public TrafficCase {
 public:
  LayerTraffic(Pass pass, const LayerProblem& problem, LayerWords<T> words)
      : pass_(pass), problem_(problem), words_(std::move(words)) {
    const auto [n, m, d, e, tie, mask] = problem.shape;
    if (problem.batch > 1 || problem.scale != 1) {
      throw UsageError("one entry with a scale of 1 is measured: others repeat it");
    }
    inputs_ = {{words_.a1->data(), n, d, d},
               {words_.a2->data(), m, d, d},
               {words_.a3->data(), m, d, d},
               {words_.x.data(), d, d, d},
               {words_.y.data(), d, e, e},
               mask,
               problem.scale,
               problem.batch};
    const index_t rows = problem_.batch * n;
    o_ = AlignedWords<T>(rows * e);
    lse_ = AlignedWords<Compute<T>>(rows);
    if (pass != Pass::backward) return;
    dx_ = AlignedWords<T>(d * d);
    api::RunOptions any;
    any.memory_limit_bytes = -1;
    planned_ = plan_pass(Pass::forward, problem_, any);
    run_forward(1, nullptr, nullptr);
  }

  std::string problem_text() const override { return to_text(problem_); }
  DType dtype() const override { return dtype_of<T>::value; }
  Pass pass() const override { return pass_; }

  TrafficPlan plan(const api::RunOptions& options) override {
    planned_ = plan_pass(pass_, problem_, options);
    TrafficPlan result;
    result.level = planned_.plan.level;
    result.M = planned_.M;
    result.text = to_text(planned_.plan);
    result.schedule = name_of(planned_.plan.schedule);
    result.formula = cost_of(pass_, problem_, planned_.plan.schedule, planned_.plan.blocks);
    result.mask = problem_.shape.mask;
    const LayerShape bounded = bounded_shape(inputs_, problem_.shape);
    result.bound =
        theory::lower_bound(pass_, theory::class_of(pass_, planned_.plan.schedule), bounded,
                            std::max(planned_.M, result.formula.footprint), problem_.batch);
    result.compulsory = theory::compulsory_bound(pass_, bounded, problem_.batch);
    return result;
  }

  void take_plan(const std::string& text) override {
    std::string error;
    if (!plan::parse_plan(text, &planned_.plan, &error)) throw UsageError(error);
  }

  void run_on(int threads, Observer* observer, const kernels::Kernels* kernels) override {
    if (pass_ == Pass::forward) {
      run_forward(threads, observer, kernels);
      return;
    }
    const index_t d = problem_.shape.d, e = problem_.shape.dv, n = problem_.shape.n;
    require(api::layer_backward<T>(inputs_, {words_.d_o.data(), n, e, e}, {o_.data(), n, e, e},
                                   lse_.data(), planned_.plan,
                                   {threads, observer, nullptr, kernels}, {dx_.data(), d, d, d}));
  }

  Isa isa() const override { return planned_.plan.tile.isa; }
  std::uint64_t result_bits() const override {
    return pass_ == Pass::forward ? o_.hash() ^ lse_.hash() : dx_.hash();
  }

 private:
  void run_forward(int threads, Observer* observer, const kernels::Kernels* kernels) {
    const index_t n = problem_.shape.n, e = problem_.shape.dv;
    require(api::layer_forward<T>(inputs_, planned_.plan, {threads, observer, nullptr, kernels},
                                  {o_.data(), n, e, e}, lse_.data()));
  }

  Pass pass_;
  LayerProblem problem_;
  LayerWords<T> words_;
  LayerInputs<T> inputs_;
  AlignedWords<T> o_, dx_;
  AlignedWords<Compute<T>> lse_;
  PlannedPass planned_;
};

template <class T>
std::unique_ptr<TrafficCase> from_files(Pass pass, const LayerPaths& paths) {
  const LayerFiles<T> files = read_layer<T>(paths);
  const LayerProblem problem = api::problem_of(files.inputs());
  if (is_empty(pass, problem.shape)) throw UsageError("nothing moves: a size is 0");
  LayerWords<T> words = layer_of(files);
  if (words.d_o.count() == 0) {
    words.d_o = ArbitraryValues<T>().words(problem.batch * problem.shape.n * problem.shape.dv);
  }
  return std::make_unique<LayerTraffic<T>>(pass, problem, std::move(words));
}

}  // namespace

std::unique_ptr<TrafficCase> layer_case(Pass pass, const LayerProblem& problem) {
  return with_dtype(problem.dtype, [&](auto zero) -> std::unique_ptr<TrafficCase> {
    using T = decltype(zero);
    return std::make_unique<LayerTraffic<T>>(pass, problem, arbitrary_layer<T>(problem));
  });
}

std::unique_ptr<TrafficCase> layer_case(Pass pass, const LayerPaths& paths,
                                        std::optional<DType> dtype) {
  return with_dtype(dtype_for(dtype, paths.a1),
                    [&](auto zero) { return from_files<decltype(zero)>(pass, paths); });
}

}  // namespace ioattn::tune
