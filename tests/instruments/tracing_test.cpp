// What tracing kernels record: lines of known products, every line of every operand of a pass, and
// the results of the kernels that they stand for.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "api/kernels_in_use.hpp"
#include "api/planning/session.hpp"
#include "api/run/layer.hpp"
#include "api/run/sdpa.hpp"
#include "instruments/simulators/tracing_kernels.hpp"
#include "status_ok.hpp"
#include "tune/files/aligned_words.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using namespace ioattn::instruments;

// Lines that were touched, and those that were written.
class LineSets final : public AccessSink {
 public:
  void take(const Access* first, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      touched.insert(first[i].line);
      if (first[i].written) written.insert(first[i].line);
      order.push_back(first[i]);
    }
  }
  std::set<std::uint64_t> touched, written;
  std::vector<Access> order;
};

constexpr index_t line_bytes = 64;

template <class T>
std::uint64_t line_of(const T* word) {
  return reinterpret_cast<std::uintptr_t>(word) / line_bytes;
}

// Every line of the words is in the set.
template <class T>
testing::AssertionResult covers(const std::set<std::uint64_t>& lines,
                                const tune::AlignedWords<T>& w) {
  for (std::uint64_t line = line_of(w.data()); line <= line_of(w.data() + w.count() - 1); ++line) {
    if (lines.count(line) == 0) {
      return testing::AssertionFailure() << "line " << line - line_of(w.data()) << " is not";
    }
  }
  return testing::AssertionSuccess();
}
template <class T>
testing::AssertionResult meets(const std::set<std::uint64_t>& lines,
                               const tune::AlignedWords<T>& w) {
  for (std::uint64_t line = line_of(w.data()); line <= line_of(w.data() + w.count() - 1); ++line) {
    if (lines.count(line) != 0) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no line is";
}

const kernels::Kernels& best_kernels() {
  const kernels::Kernels* kernels = nullptr;
  EXPECT_OK(api::selected_kernels(&kernels));
  return *kernels;
}

TEST(TraceRecorder, MakesLinesOfWhatIsTouched) {
  alignas(64) static std::byte memory[4096];
  LineSets lines;
  TraceRecorder recorder(64, 5, {&lines});
  recorder.touch(memory, 0, true);
  recorder.touch(memory + 60, 8, false);  // two lines
  recorder.touch(memory + 100, 4, true);  // the second again: no access of its own, but written
  recorder.touch(memory, 64, false);
  recorder.touch(memory + 128, 65, true);
  recorder.finish();
  const std::uint64_t first = line_of(memory);
  ASSERT_EQ(lines.order.size(), 5u);
  EXPECT_EQ(recorder.accesses(), 5u);
  EXPECT_FALSE(recorder.overflowed());
  const std::uint64_t expected[] = {0, 1, 0, 2, 3};
  const bool written[] = {false, true, false, true, true};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(lines.order[i].line - first, expected[i]) << i;
    EXPECT_EQ(lines.order[i].id, expected[i]) << i;
    EXPECT_EQ(lines.order[i].written, written[i]) << i;
  }
  recorder.touch(memory + 1024, 1, false);
  recorder.finish();
  EXPECT_TRUE(recorder.overflowed());
  EXPECT_EQ(lines.order.size(), 5u);
}

// C[mr x nr] += A B with one register tile: a line of B's panel a term, A's rows as their lines
// begin and end, then C.
TEST(TracingKernels, RecordAProduct) {
  const kernels::Kernels& scalar = *kernels::find_kernels(Isa::scalar);
  const index_t mr = scalar.f32->tile.rows, nr = 16 * scalar.f32->tile.cols / 16, depth = 32;
  tune::ArbitraryValues<float> random;
  const auto a = random.words(mr * depth), b = random.words(depth * nr), c = random.words(mr * nr);
  LineSets lines;
  TraceRecorder recorder(line_bytes, 1000, {&lines});
  const TracingKernels tracing(scalar, &recorder);
  kernels::Product<float> p;
  p.rows = mr;
  p.cols = nr;
  p.depth = depth;
  p.a = {a.data(), depth, 1};
  p.b = {b.data(), depth * nr, nr};
  p.c = {c.data(), nr, nr};
  p.accumulate = true;
  const float before = c.data()[0];
  tracing.kernels().f32->product(p);
  recorder.finish();
  float sum = before;
  for (index_t q = 0; q < depth; ++q) sum += a.data()[q] * b.data()[q * nr];
  EXPECT_NEAR(c.data()[0], sum, 1e-4);
  EXPECT_TRUE(covers(lines.touched, a));
  EXPECT_TRUE(covers(lines.touched, b));
  EXPECT_TRUE(covers(lines.written, c));
  EXPECT_FALSE(meets(lines.written, a));
  EXPECT_FALSE(meets(lines.written, b));
  // A has a line for each half of the terms of a row, which no other row touches: as it begins, and
  // as it ends.
  std::vector<std::uint64_t> of_a;
  for (const Access& access : lines.order) {
    if (access.line >= line_of(a.data()) && access.line <= line_of(a.data() + mr * depth - 1)) {
      of_a.push_back(access.line - line_of(a.data()));
    }
  }
  std::vector<std::uint64_t> expected;
  for (const index_t half : {0, 0, 1, 1})
    for (index_t i = 0; i < mr; ++i) expected.push_back(static_cast<std::uint64_t>(2 * i + half));
  EXPECT_EQ(of_a, expected);
  EXPECT_EQ(lines.order.back().line, line_of(c.data() + mr * nr - 1));
}

TEST(TracingKernels, RecordNothingAfterwards) {
  LineSets lines;
  TraceRecorder recorder(line_bytes, 1000, {&lines});
  alignas(64) float x[16] = {}, y[16] = {}, sum = 1;
  {
    const TracingKernels tracing(best_kernels(), &recorder);
    tracing.kernels().f32->row_dot(1, 16, x, 16, y, 16, &sum);
    EXPECT_EQ(sum, 0);
  }
  recorder.finish();
  EXPECT_EQ(recorder.accesses(), 3u);
  EXPECT_EQ(best_kernels().f32->touched, nullptr);
}

// Each thread has a recorder of its own, in the order in which they come; one too many has none.
TEST(TracingKernels, RecordThreadsApart) {
  constexpr int threads = 3;
  LineSets lines[threads];
  std::vector<std::unique_ptr<TraceRecorder>> recorders;
  std::vector<TraceRecorder*> some;
  for (LineSets& of : lines) {
    recorders.push_back(
        std::make_unique<TraceRecorder>(line_bytes, 1000, std::vector<AccessSink*>{&of}));
    some.push_back(recorders.back().get());
  }
  tune::ArbitraryValues<float> random;
  std::vector<tune::AlignedWords<float>> x, y, sums;
  for (int i = 0; i <= threads; ++i) {
    x.push_back(random.words(160));
    y.push_back(random.words(160));
    sums.push_back(random.words(16));
  }
  {
    const TracingKernels tracing(best_kernels(), some);
    const auto dot = [&](std::size_t i) {
      tracing.kernels().f32->row_dot(1, 160, x[i].data(), 160, y[i].data(), 160, sums[i].data());
    };
    for (std::size_t i = 1; i <= threads; ++i) std::thread(dot, i).join();
    dot(0);  // the thread that made the table was the first
  }
  for (std::size_t i = 0; i < threads; ++i) {
    recorders[i]->finish();
    for (std::size_t j = 0; j <= threads; ++j) {
      EXPECT_EQ(bool(covers(lines[i].touched, x[j])), i == j) << i << j;
      EXPECT_EQ(bool(meets(lines[i].touched, y[j])), i == j) << i << j;
    }
    EXPECT_EQ(lines[i].written, std::set<std::uint64_t>{line_of(sums[i].data())});
  }
}

template <class T>
struct LayerOperands {
  LayerShape shape;
  tune::AlignedWords<T> a1, a2, a3, x, y, d_o, o, lse, dx;

  explicit LayerOperands(const LayerShape& s) : shape(s) {
    tune::ArbitraryValues<T> random;
    a1 = random.words(s.n * s.d);
    a2 = random.words(s.m * s.d);
    a3 = random.words(s.m * s.d);
    x = random.words(s.d * s.d, 0.2);
    y = random.words(s.d * s.dv);
    d_o = random.words(s.n * s.dv);
    o = tune::AlignedWords<T>(s.n * s.dv);
    lse = tune::AlignedWords<T>(s.n);
    dx = tune::AlignedWords<T>(s.d * s.d);
  }
  LayerInputs<T> inputs() const {
    const auto [n, m, d, e, tie, mask] = shape;
    LayerInputs<T> in = {{a1.data(), n, d, d},
                         {a2.data(), m, d, d},
                         {a3.data(), m, d, d},
                         {x.data(), d, d, d},
                         {y.data(), d, e, e}};
    in.mask = mask;
    return in;
  }
};

// Every schedule that this M is enough for touches every line of every operand, writes those of its
// results and none of its inputs, and gives the bits that it gives without tracing.
template <class T>
void check_layer(Pass pass, const LayerShape& shape, index_t M) {
  LayerOperands<T> operands(shape);
  const LayerInputs<T> in = operands.inputs();
  const MatrixView<T> o = {operands.o.data(), shape.n, shape.dv, shape.dv};
  plan::LayerRequest request;
  api::RunOptions options;
  options.M = M;
  options.memory_limit_bytes = 1 << 30;
  LayerProblem problem;
  problem.shape = shape;
  problem.dtype = dtype_of<T>::value;
  plan::Plan forward;
  ASSERT_OK(api::plan_pass(Pass::forward, problem, options, &forward));
  ASSERT_OK(api::layer_forward<T>(in, forward, {1}, o, operands.lse.data()));
  ASSERT_OK(api::plan_request(pass, problem, options, &request));
  int runs = 0;
  for (const plan::Candidate& candidate : plan::candidates(request)) {
    if (!candidate.fits) continue;
    SCOPED_TRACE(std::string(name_of(candidate.schedule)) + " " + name_of(pass));
    const plan::Plan plan = {request.level, candidate.schedule, candidate.blocks, request.tile};
    const auto run = [&](const kernels::Kernels* kernels) {
      if (pass == Pass::forward) {
        return api::layer_forward<T>(in, plan, {.kernels = kernels}, o, operands.lse.data());
      }
      return api::layer_backward<T>(in, {operands.d_o.data(), shape.n, shape.dv, shape.dv}, o,
                                    operands.lse.data(), plan, {.kernels = kernels},
                                    {operands.dx.data(), shape.d, shape.d, shape.d});
    };
    const tune::AlignedWords<T>& result = pass == Pass::forward ? operands.o : operands.dx;
    ASSERT_OK(run(nullptr));
    const std::uint64_t bits = result.hash();
    LineSets lines;
    TraceRecorder recorder(line_bytes, 1 << 30, {&lines});
    {
      const TracingKernels tracing(best_kernels(), &recorder);
      ASSERT_OK(run(&tracing.kernels()));
    }
    recorder.finish();
    EXPECT_EQ(result.hash(), bits);
    EXPECT_TRUE(covers(lines.written, result));
    for (const tune::AlignedWords<T>* input :
         {&operands.a1, &operands.a2, &operands.a3, &operands.x, &operands.y}) {
      EXPECT_TRUE(covers(lines.touched, *input)) << input - &operands.a1;
      EXPECT_FALSE(meets(lines.written, *input)) << input - &operands.a1;
    }
    if (pass == Pass::forward) {
      EXPECT_TRUE(covers(lines.written, operands.lse));
    } else {
      EXPECT_TRUE(covers(lines.touched, operands.d_o));
      EXPECT_FALSE(meets(lines.written, operands.d_o));
    }
    ++runs;
  }
  EXPECT_GE(runs, 3);
}

TEST(TracingKernels, RecordEveryLineOfALayer) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    check_layer<float>(pass, {67, 83, 24, 19}, 900);
    check_layer<float>(pass, {67, 83, 24, 19}, 20000);
    check_layer<double>(pass, {40, 51, 17, 17}, 2000);
    check_layer<float>(pass, {67, 83, 24, 19, Tie::none, window(16, -1, 0)}, 2000);
  }
}

TEST(TracingKernels, RecordEveryLineOfSdpa) {
  for (const bool is_causal : {false, true}) {
    for (const index_t M : {700, 4000, 60000}) {
      SdpaProblem problem;
      problem.shape = {2, 4, 2, 45, 45, 20, 28, {}};
      if (is_causal) problem.shape.mask = window(0, -1, 0);
      const SdpaShape& s = problem.shape;
      tune::ArbitraryValues<float> random;
      const index_t queries = s.all_heads() * s.n, keys = s.all_kv_heads() * s.m;
      const auto q = random.words(queries * s.d), k = random.words(keys * s.d);
      const auto v = random.words(keys * s.dv), d_o = random.words(queries * s.dv);
      const tune::AlignedWords<float> o(queries * s.dv), lse(queries), dq(queries * s.d),
          dk(keys * s.d), dv(keys * s.dv);
      const auto of_queries = [&](const auto& words, index_t cols) {
        return dense_tensor(words.data(), s.batch, s.heads, s.n, cols);
      };
      const auto of_keys = [&](const auto& words, index_t cols) {
        return dense_tensor(words.data(), s.batch, s.kv_heads, s.m, cols);
      };
      const SdpaInputs<float> in = {of_queries(q, s.d), of_keys(k, s.d), of_keys(v, s.dv)};
      const TensorView<float> lse_view = dense_tensor(lse.data(), s.batch, s.heads, 1, s.n);
      api::RunOptions options;
      options.M = M;
      plan::SdpaPlan forward, backward;
      ASSERT_OK(api::plan_sdpa(problem, std::nullopt, options, &forward));
      ASSERT_OK(api::plan_sdpa(problem, SdpaSet{true, true, true}, options, &backward));
      LineSets lines;
      TraceRecorder recorder(line_bytes, 1 << 30, {&lines});
      {
        const TracingKernels tracing(best_kernels(), &recorder);
        ASSERT_OK(api::sdpa_forward<float>(problem, in, forward, {.kernels = &tracing.kernels()},
                                           of_queries(o, s.dv), lse_view));
      }
      recorder.finish();
      SCOPED_TRACE(to_text(forward) + " " + std::to_string(is_causal));
      for (const auto* input : {&q, &k, &v}) {
        EXPECT_TRUE(covers(lines.touched, *input));
        EXPECT_FALSE(meets(lines.written, *input));
      }
      EXPECT_TRUE(covers(lines.written, o));
      EXPECT_TRUE(covers(lines.written, lse));

      LineSets more;
      TraceRecorder again(line_bytes, 1 << 30, {&more});
      {
        const TracingKernels tracing(best_kernels(), &again);
        const Status ran = api::sdpa_backward<float, float>(
            problem, in, {of_queries(d_o, s.dv), of_queries(o, s.dv), lse_view}, backward,
            {.kernels = &tracing.kernels()},
            {of_queries(dq, s.d), of_keys(dk, s.d), of_keys(dv, s.dv)});
        ASSERT_OK(ran);
      }
      again.finish();
      SCOPED_TRACE(to_text(backward));
      for (const auto* input : {&q, &k, &v, &d_o, &o, &lse}) {
        EXPECT_TRUE(covers(more.touched, *input));
        EXPECT_FALSE(meets(more.written, *input));
      }
      for (const auto* output : {&dq, &dk, &dv}) EXPECT_TRUE(covers(more.written, *output));
    }
  }
}

}  // namespace
}  // namespace ioattn_test
