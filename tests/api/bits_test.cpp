// The same bits for any number of threads, any place in memory and every time. Threads are granted
// as asked, however few CPUs there are.

#include <algorithm>
#include <cmath>
#include <memory>

#include "api/array_types.hpp"
#include "api/batch_call.hpp"
#include "api/planning/session.hpp"
#include "api/run/layer.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

// libomp forgets memory of its own when the number of threads grows. The sanitizer names the hook.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp"; }
// NOLINTEND(bugprone-reserved-identifier)

namespace ioattn_test {
namespace {

using namespace ioattn;

// The C header and base/status.hpp number the same things.
static_assert(int{IOATTN_OK} == static_cast<int>(StatusCode::ok));
static_assert(int{IOATTN_INVALID_ARGUMENT} == static_cast<int>(StatusCode::invalid_argument));
static_assert(int{IOATTN_SIZE_OVERFLOW} == static_cast<int>(StatusCode::size_overflow));
static_assert(int{IOATTN_FAST_MEMORY_TOO_SMALL} ==
              static_cast<int>(StatusCode::fast_memory_too_small));
static_assert(int{IOATTN_MEMORY_LIMIT} == static_cast<int>(StatusCode::memory_limit));
static_assert(int{IOATTN_OUT_OF_MEMORY} == static_cast<int>(StatusCode::out_of_memory));
static_assert(int{IOATTN_UNSUPPORTED} == static_cast<int>(StatusCode::unsupported));
static_assert(int{IOATTN_INTERNAL} == static_cast<int>(StatusCode::internal));
static_assert(int{IOATTN_F32} == static_cast<int>(DType::f32));
static_assert(int{IOATTN_F64} == static_cast<int>(DType::f64));
static_assert(int{IOATTN_TIE_NONE} == static_cast<int>(Tie::none));
static_assert(int{IOATTN_TIE_KV} == static_cast<int>(Tie::kv));
static_assert(int{IOATTN_TIE_ALL} == static_cast<int>(Tie::all));
static_assert(sizeof(ioattn_status) == sizeof(StatusCode));

template <class T>
LayerInputs<T> inputs_of(const ioattn_layer_problem& p) {
  const auto view = [](const void* data, index_t rows, index_t cols, index_t stride) {
    return MatrixView<const T>{static_cast<const T*>(data), rows, cols, stride};
  };
  return {view(p.a1, p.n, p.d, p.a1_stride), view(p.a2, p.m, p.d, p.a2_stride),
          view(p.a3, p.m, p.d, p.a3_stride), view(p.x, p.d, p.d, p.x_stride),
          view(p.y, p.d, p.dv, p.y_stride)};
}

// Every schedule that fits in M words, row_stream in both forms, as plans.
template <class T>
std::vector<plan::Plan> plans(Pass pass, const LayerInputs<T>& inputs, index_t M) {
  api::RunOptions options;
  options.M = M;
  plan::LayerRequest request;
  EXPECT_OK(api::plan_request(pass, {shape_of(inputs), dtype_of<T>::value}, options, &request));
  std::vector<plan::Plan> all;
  for (const plan::Candidate& c : plan::candidates(request))
    if (c.fits) all.push_back({"M", c.schedule, c.blocks, request.tile});
  return all;
}

template <class T>
std::vector<T> forward_bits(const plan::Plan& plan, int threads, LayerCall<T>* call) {
  call->reset();
  const Status status = api::layer_forward<T>(
      inputs_of<T>(call->problem), plan, {threads},
      {call->o.data(), call->problem.n, call->problem.dv, call->o.stride()}, call->lse.data());
  EXPECT_OK(status);
  return call->outputs();
}

// O and LSE are those that the call holds.
template <class T>
std::vector<T> backward_bits(const plan::Plan& plan, int threads, LayerCall<T>* call) {
  call->dx.fill_with_pattern();
  const ioattn_layer_problem& p = call->problem;
  const Status status =
      api::layer_backward<T>(inputs_of<T>(p), {call->d_o.data(), p.n, p.dv, call->d_o.stride()},
                             {call->o.data(), p.n, p.dv, call->o.stride()}, call->lse.data(), plan,
                             {threads}, {call->dx.data(), p.d, p.d, call->dx.stride()});
  EXPECT_OK(status);
  return call->dx.dense();
}

struct BitCase {
  CaseShape shape;
  index_t M;
  bool many_blocks;  // of rows, in every plan of row_stream
};
const BitCase cases[] = {
    {{3, 5, 4, 4, Ties::none}, 10000, false},  // n smaller than a block
    {{50, 70, 20, 12, Ties::none}, 100000, false},
    {{300, 120, 16, 12, Ties::none}, 3000, true},
    {{400, 90, 12, 20, Ties::keys_values}, 2500, true},
    {{260, 260, 10, 10, Ties::all}, 1500, true},
};

template <class T>
class Bits : public testing::Test {};
TYPED_TEST_SUITE(Bits, BothTypes);

TYPED_TEST(Bits, DoNotDependOnThreads) {
  for (const BitCase& c : cases) {
    for (const std::size_t padding : {0u, 5u}) {
      LayerCall<TypeParam> call(c.shape, padding);
      const LayerInputs<TypeParam> inputs = inputs_of<TypeParam>(call.problem);
      int compared = 0;
      for (const Pass pass : {Pass::backward, Pass::forward}) {
        if (pass == Pass::backward)
          forward_bits(plans(Pass::forward, inputs, c.M).back(), 1, &call);
        const auto bits = [&](const plan::Plan& plan, int threads) {
          return pass == Pass::forward ? forward_bits(plan, threads, &call)
                                       : backward_bits(plan, threads, &call);
        };
        for (const plan::Plan& plan : plans(pass, inputs, c.M)) {
          SCOPED_TRACE(name_of(c.shape) + ' ' + name_of(pass) + ' ' + plan::to_text(plan));
          if (c.many_blocks && plan.schedule == Schedule::row_stream) {
            ASSERT_GE(ceil_div(call.problem.n, plan.blocks.r), 5);
          }
          const auto expected = bits(plan, 1);
          if (pass == Pass::forward) {
            call.expect_forward();
          } else {
            call.expect_backward();
          }
          for (const int threads : thread_counts)
            EXPECT_TRUE(same_bits(bits(plan, threads), expected)) << threads << " threads";
          ++compared;
        }
      }
      EXPECT_GE(compared, 7) << name_of(c.shape);  // 3 forward, 4 backward, some in two forms
    }
  }
}

// Every schedule that takes the mask, and a set of gradients that takes every phase.
TYPED_TEST(Bits, OfABatchUnderAMaskDoNotDependOnThreads) {
  using T = TypeParam;
  for (const MaskCase& mask : mask_cases) {
    BatchCall<T> call({{90, 70, 12, 9, Ties::none}, 2, 0.5, mask}, 1);
    const ioattn_layer_problem& p = call.problem;
    LayerInputs<T> inputs = inputs_of<T>(p);
    inputs.batch = 2;
    inputs.scale = 0.5;
    if (mask.mask != IOATTN_MASK_NONE) {
      const auto limit = [](long long key) {
        const long long none = reference::LayerInputs<double>::unlimited;
        return key == none ? Mask::unbounded : key == -none ? -Mask::unbounded : index_t(key);
      };
      inputs.mask = {limit(call.inputs[0].first_key), limit(call.inputs[0].last_key)};
    }
    const LayerProblem problem = api::problem_of(inputs);
    const index_t M = 1500;
    int compared = 0;
    for (const plan::Plan& plan : plans(Pass::forward, inputs, M)) {
      SCOPED_TRACE(name_of(call.shape) + ' ' + plan::to_text(plan));
      std::vector<T> expected;
      for (const int threads : thread_counts) {
        call.reset();
        const Status status = api::layer_forward<T>(
            inputs, plan, {threads}, {call.o.data(), p.n, p.dv, call.o.stride()}, call.lse.data());
        ASSERT_OK(status);
        if (threads == 1) expected = call.outputs();
        EXPECT_TRUE(same_bits(call.outputs(), expected)) << threads << " threads";
      }
      call.expect_forward();
      ++compared;
    }
    EXPECT_GE(compared, 2);

    api::RunOptions options;
    options.M = M;
    plan::LayerRequest request;
    ASSERT_OK(api::plan_request(Pass::backward, problem, options, &request));
    const auto view = [&](std::size_t i, index_t rows, index_t cols) {
      return MatrixView<T>{call.out[i].data(), rows, cols, call.out[i].stride()};
    };
    LayerGradients<T> all;
    all.dx = view(0, p.d, p.d);
    LayerGradients<T> dx = all;
    all.dy = view(1, p.d, p.dv);
    all.da1 = view(2, p.n, p.d);
    all.da2 = view(3, p.m, p.d);
    all.da3 = view(4, p.m, p.d);
    for (const LayerGradients<T>& wanted : {all, dx}) {
      call.want(wanted.set().dY);
      plan::LayerPlan plan;
      ASSERT_OK(plan::make_gradient_plan(request, wanted.set(), &plan));
      std::vector<T> expected;
      for (const int threads : thread_counts) {
        call.reset_gradients();
        const Status status = api::layer_gradients<T>(
            inputs, {call.d_o.data(), p.n, p.dv, call.d_o.stride()},
            {call.o.data(), p.n, p.dv, call.o.stride()}, call.lse.data(), plan, {threads}, wanted);
        ASSERT_OK(status);
        if (threads == 1) expected = call.outputs();
        EXPECT_TRUE(same_bits(call.outputs(), expected)) << threads << " threads";
      }
      call.expect_backward();
    }
  }
}

TYPED_TEST(Bits, AreTheSameEveryTime) {
  const BitCase& c = cases[2];
  LayerCall<TypeParam> call(c.shape, 1);
  const LayerInputs<TypeParam> inputs = inputs_of<TypeParam>(call.problem);
  for (const plan::Plan& forward : plans(Pass::forward, inputs, c.M)) {
    const auto expected = forward_bits(forward, 3, &call);
    for (int repeat = 1; repeat < 20; ++repeat)
      ASSERT_TRUE(same_bits(forward_bits(forward, 3, &call), expected)) << plan::to_text(forward);
  }
  for (const plan::Plan& backward : plans(Pass::backward, inputs, c.M)) {
    const auto expected = backward_bits(backward, 3, &call);
    for (int repeat = 1; repeat < 20; ++repeat)
      ASSERT_TRUE(same_bits(backward_bits(backward, 3, &call), expected))
          << plan::to_text(backward);
  }
}

// All arrays of a call, `offset` elements behind an address that is a multiple of 128 bytes.
template <class T>
class Placed {
 public:
  Placed(LayerCall<T>* call, std::size_t offset) : call_(*call) {
    ioattn_layer_problem& p = call_.problem;
    buffer_.assign(static_cast<std::size_t>(2 * (p.n + p.m) * (p.d + p.dv) +
                                            2 * p.d * (p.d + p.dv) + p.n + 1024),
                   std::numeric_limits<T>::quiet_NaN());
    void* begin = buffer_.data();
    std::size_t room = buffer_.size() * sizeof(T);
    next_ = static_cast<T*>(std::align(128, 128, begin, room));
    place(&p.a1, &p.a1_stride, call_.a1.dense(), p.d, offset);
    place(&p.a2, &p.a2_stride, call_.a2.dense(), p.d, offset);
    place(&p.a3, &p.a3_stride, call_.a3.dense(), p.d, offset);
    place(&p.x, &p.x_stride, call_.x.dense(), p.d, offset);
    place(&p.y, &p.y_stride, call_.y.dense(), p.dv, offset);
    place(&d_o_, &d_o_stride_, call_.d_o.dense(), p.dv, offset);
    o_ = take(p.n * p.dv, offset);
    lse_ = take(p.n, offset);
    dx_ = take(p.d * p.d, offset);
  }

  std::vector<T> bits(const ioattn_options& options) {
    const ioattn_layer_problem& p = call_.problem;
    const bool both = options.schedule == nullptr || has_forward_pass(options.schedule);
    EXPECT_EQ(ioattn_layer_forward(&p, both ? &options : nullptr, o_, 0, lse_), IOATTN_OK);
    EXPECT_EQ(backward_dx(&p, &options, d_o_, 0, o_, 0, lse_, dx_, 0), IOATTN_OK);
    std::vector<T> all(o_, o_ + p.n * p.dv);
    all.insert(all.end(), lse_, lse_ + p.n);
    all.insert(all.end(), dx_, dx_ + p.d * p.d);
    return all;
  }

 private:
  T* take(std::int64_t count, std::size_t offset) {
    T* place = next_ + offset;
    next_ += (static_cast<std::size_t>(count) + offset + 63) / 64 * 64;
    EXPECT_LE(next_, buffer_.data() + buffer_.size());
    return place;
  }
  void place(const void** pointer, std::int64_t* stride, const std::vector<T>& values,
             std::int64_t cols, std::size_t offset) {
    T* at = take(static_cast<std::int64_t>(values.size()), offset);
    std::copy(values.begin(), values.end(), at);
    *pointer = at;
    *stride = cols;
  }

  LayerCall<T>& call_;
  std::vector<T> buffer_;
  T* next_ = nullptr;
  const void* d_o_ = nullptr;
  std::int64_t d_o_stride_ = 0;
  T *o_ = nullptr, *lse_ = nullptr, *dx_ = nullptr;
};

TYPED_TEST(Bits, DoNotDependOnAlignment) {
  const CaseShape shape = {67, 45, 24, 20, Ties::none};
  for (const char* schedule : backward_schedules) {
    std::vector<TypeParam> expected;
    for (std::size_t offset = 0; offset < 16; ++offset) {
      LayerCall<TypeParam> call(shape, 0);
      const auto got = Placed<TypeParam>(&call, offset).bits(with_schedule(schedule));
      if (offset == 0) expected = got;
      for (const TypeParam value : got) ASSERT_FALSE(std::isnan(value));
      EXPECT_TRUE(same_bits(got, expected)) << schedule << ", offset " << offset;
    }
  }
}

// Nor on the distance between rows.
TYPED_TEST(Bits, DoNotDependOnPadding) {
  const CaseShape shape = {67, 45, 24, 20, Ties::none};
  for (const char* schedule : backward_schedules) {
    std::vector<TypeParam> expected;
    for (const std::size_t padding : {0u, 1u, 2u, 3u, 8u, 13u, 40u}) {
      LayerCall<TypeParam> call(shape, padding);
      const ioattn_options options = with_schedule(schedule);
      ASSERT_EQ(call.forward(!has_forward_pass(schedule) ? nullptr : &options), IOATTN_OK);
      ASSERT_EQ(call.backward(&options), IOATTN_OK);
      const auto got = call.outputs();
      if (padding == 0) expected = got;
      EXPECT_TRUE(same_bits(got, expected)) << schedule << ", padding " << padding;
    }
  }
}

}  // namespace
}  // namespace ioattn_test
