// Results of the C functions against the reference, through the shared library alone.

#include <set>
#include <string>

#include "api/layer_call.hpp"

namespace ioattn_test {
namespace {

const CaseShape shapes[] = {
    {1, 1, 1, 1, Ties::none},
    {37, 53, 19, 11, Ties::none},         // n < m, dv < d
    {130, 70, 33, 48, Ties::none},        // n > m, dv > d
    {64, 96, 32, 32, Ties::keys_values},  // A2 = A3
    {85, 85, 40, 17, Ties::all},          // A1 = A2 = A3
};

template <class T>
class Layer : public testing::Test {};
TYPED_TEST_SUITE(Layer, BothTypes);

TYPED_TEST(Layer, EveryScheduleAndAuto) {
  for (const CaseShape& shape : shapes) {
    for (const std::size_t padding : {0u, 3u}) {
      LayerCall<TypeParam> call(shape, padding);
      for (const char* schedule : and_auto(forward_schedules)) {
        SCOPED_TRACE(std::string(schedule) + ", padding " + std::to_string(padding));
        const ioattn_options options = with_schedule(schedule);
        call.reset();
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(call.dx.untouched());
        call.expect_forward();
      }
      for (const char* schedule : and_auto(backward_schedules)) {
        SCOPED_TRACE(std::string(schedule) + ", padding " + std::to_string(padding));
        const ioattn_options options = with_schedule(schedule);
        call.dx.fill_with_pattern();
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        call.expect_backward();
        call.expect_forward();  // O and LSE are inputs now
        call.dx.fill_with_pattern();
        ASSERT_EQ(call.whole_backward(&options), IOATTN_OK) << ioattn_last_error();
        call.expect_backward();
      }
    }
  }
}

// Blocks much smaller than the problem, at every cache level and at M given in words.
TYPED_TEST(Layer, SmallFastMemory) {
  LayerCall<TypeParam> call({67, 45, 24, 20, Ties::none}, 1);
  for (const std::int64_t words : {200, 1000, 5000}) {
    for (const char* schedule : {"auto", "row_stream", "stationary", "paper_small"}) {
      SCOPED_TRACE(std::string(schedule) + ", M " + std::to_string(words));
      ioattn_options options = with_schedule(schedule);
      options.fast_memory_words = words;
      call.reset();
      ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_forward();
      ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
    }
  }
  int levels = 0;
  for (int level = 1; level <= 3; ++level) {
    ioattn_cache cache = {};
    cache.struct_size = sizeof cache;
    const bool found = ioattn_machine_cache(level, &cache) == IOATTN_OK;
    ioattn_options options = default_options();
    options.cache_level = level;
    call.reset();
    EXPECT_EQ(call.forward(&options), found ? IOATTN_OK : IOATTN_UNSUPPORTED);
    if (!found) continue;
    ++levels;
    call.expect_forward();
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    call.expect_backward();
  }
  EXPECT_GE(levels, 2);
}

TYPED_TEST(Layer, OptionsThatSayNothingChangeNothing) {
  LayerCall<TypeParam> call(shapes[2], 2);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto expected = call.outputs();
  ioattn_options every_thread = default_options();
  every_thread.threads = 64;
  ioattn_options one_thread = default_options();
  one_thread.threads = 1;
  for (const ioattn_options& options :
       {default_options(), with_schedule("auto"), every_thread, one_thread}) {
    call.reset();
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
    ASSERT_EQ(call.backward(&options), IOATTN_OK);
    EXPECT_TRUE(same_bits(call.outputs(), expected));
  }
}

TYPED_TEST(Layer, StrideZeroMeansRowsFollowEachOther) {
  LayerCall<TypeParam> call(shapes[1], 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto expected = call.outputs();
  ioattn_layer_problem dense = call.problem;
  dense.a1_stride = dense.a2_stride = dense.a3_stride = dense.x_stride = dense.y_stride = 0;
  call.reset();
  ASSERT_EQ(ioattn_layer_forward(&dense, nullptr, call.o.data(), 0, call.lse.data()), IOATTN_OK);
  ASSERT_EQ(backward_dx(&dense, nullptr, call.d_o.data(), 0, call.o.data(), 0, call.lse.data(),
                        call.dx.data(), 0),
            IOATTN_OK);
  EXPECT_TRUE(same_bits(call.outputs(), expected));
}

TYPED_TEST(Layer, NullOutputsAreNotWanted) {
  LayerCall<TypeParam> call(shapes[1], 1);
  for (const char* schedule : forward_schedules) {
    const ioattn_options options = with_schedule(schedule);
    call.reset();
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
    const auto o = call.o.dense();
    const auto lse = call.lse.dense();
    call.reset();
    const auto* p = &call.problem;
    ASSERT_EQ(ioattn_layer_forward(p, &options, call.o.data(), call.o.stride(), nullptr),
              IOATTN_OK);
    EXPECT_TRUE(same_bits(call.o.dense(), o)) << schedule;
    EXPECT_TRUE(call.lse.untouched());
    call.reset();
    ASSERT_EQ(ioattn_layer_forward(p, &options, nullptr, 0, call.lse.data()), IOATTN_OK);
    EXPECT_TRUE(same_bits(call.lse.dense(), lse)) << schedule;
    EXPECT_TRUE(call.o.untouched());
    ASSERT_EQ(ioattn_layer_forward(p, &options, nullptr, 0, nullptr), IOATTN_OK);
  }
  ASSERT_EQ(backward_dx(&call.problem, nullptr, call.d_o.data(), call.d_o.stride(), nullptr, 0,
                        nullptr, nullptr, 0),
            IOATTN_OK);
}

// dX from the inputs alone has the bits of a forward pass followed by a backward pass.
TYPED_TEST(Layer, BackwardComputesOAndLseIfNeeded) {
  LayerCall<TypeParam> call(shapes[3], 1);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto expected = call.dx.dense();
  call.reset();
  ASSERT_EQ(call.whole_backward(), IOATTN_OK);
  EXPECT_TRUE(same_bits(call.dx.dense(), expected));
  EXPECT_TRUE(call.o.untouched() && call.lse.untouched());
}

// Whoever asks for stationary has room for scores in the forward pass too: it computes O and LSE.
TYPED_TEST(Layer, StationaryComputesOAndLseItself) {
  LayerCall<TypeParam> call(shapes[2], 1);
  ioattn_options options = with_schedule("stationary");
  options.fast_memory_words = 500;
  ASSERT_EQ(call.forward(&options), IOATTN_OK);
  const auto o = call.o.dense();
  ASSERT_EQ(call.backward(&options), IOATTN_OK);
  const auto expected = call.dx.dense();
  options.schedule = nullptr;
  ASSERT_EQ(call.forward(&options), IOATTN_OK);
  ASSERT_FALSE(same_bits(call.o.dense(), o)) << "the planner's choice must be another";
  options.schedule = "stationary";
  call.reset();
  ASSERT_EQ(call.whole_backward(&options), IOATTN_OK);
  EXPECT_TRUE(same_bits(call.dx.dense(), expected));
}

// Every combination of empty and small sizes; arrays without elements may be null or not.
TYPED_TEST(Layer, SizesOfZero) {
  std::size_t calls = 0;
  for (int bits = 0; bits < 16; ++bits) {
    const auto size = [&](int bit, std::size_t else_size) {
      return (bits >> bit & 1) != 0 ? 0 : else_size;
    };
    const CaseShape shape = {size(0, 5), size(1, 7), size(2, 3), size(3, 4), Ties::none};
    LayerCall<TypeParam> call(shape, 2);
    for (const char* schedule : backward_schedules) {
      SCOPED_TRACE(name_of(shape) + ' ' + schedule);
      const ioattn_options options = with_schedule(schedule);
      call.reset();
      if (has_forward_pass(schedule)) {
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        call.expect_forward();
        if (shape.m == 0) {
          for (const TypeParam value : call.o.dense()) EXPECT_EQ(value, 0);
          for (const TypeParam value : call.lse.dense())
            EXPECT_EQ(value, -std::numeric_limits<TypeParam>::infinity());
        }
      } else {
        ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      }
      ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
      call.dx.fill_with_pattern();
      ASSERT_EQ(call.whole_backward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
      if (bits != 0) {
        for (const TypeParam value : call.dx.dense()) EXPECT_EQ(value, 0);
      }
      ++calls;
    }
  }
  EXPECT_EQ(calls, 16 * std::size(backward_schedules));
}

TYPED_TEST(Layer, ArraysWithoutElementsMayBeNull) {
  using T = TypeParam;
  // dv = 0: Y, O and dO have no elements.
  LayerCall<T> call({5, 7, 3, 0, Ties::none}, 0);
  call.problem.y = nullptr;
  ASSERT_EQ(ioattn_layer_forward(&call.problem, nullptr, nullptr, 0, call.lse.data()), IOATTN_OK);
  call.expect_forward();
  ASSERT_EQ(backward_dx(&call.problem, nullptr, nullptr, 0, nullptr, 0, call.lse.data(),
                        call.dx.data(), 0),
            IOATTN_OK)
      << ioattn_last_error();
  for (const T value : call.dx.dense()) EXPECT_EQ(value, 0);

  ioattn_layer_problem nothing = {};
  nothing.struct_size = sizeof nothing;
  nothing.dtype = call.problem.dtype;
  EXPECT_EQ(ioattn_layer_forward(&nothing, nullptr, nullptr, 0, nullptr), IOATTN_OK);
  EXPECT_EQ(backward_dx(&nothing, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr, 0), IOATTN_OK);
}

TEST(Introspection, VersionIsThatOfTheHeader) {
  EXPECT_EQ(std::string(ioattn_version()), std::to_string(IOATTN_VERSION_MAJOR) + '.' +
                                               std::to_string(IOATTN_VERSION_MINOR) + '.' +
                                               std::to_string(IOATTN_VERSION_PATCH));
}

TEST(Introspection, IsasEndWithScalarWhichIsAvailable) {
  std::string last;
  std::int32_t available = 0;
  int count = 0;
  for (; ioattn_isa(count, nullptr) != nullptr; ++count) last = ioattn_isa(count, &available);
  ASSERT_GE(count, 1);
  EXPECT_EQ(last, "scalar");
  EXPECT_EQ(available, 1);
  EXPECT_EQ(ioattn_isa(count + 1, &available), nullptr);
  EXPECT_EQ(ioattn_isa(-1, &available), nullptr);
}

TEST(Introspection, CachesAreConsistent) {
  EXPECT_GE(ioattn_machine_threads(), 1);
  std::int64_t smaller = 0;
  for (int level = 1; level <= 3; ++level) {
    SCOPED_TRACE("L" + std::to_string(level));
    ioattn_cache cache = {};
    cache.struct_size = sizeof cache;
    const ioattn_status found = ioattn_machine_cache(level, &cache);
    if (level == 3 && found == IOATTN_UNSUPPORTED) break;
    ASSERT_EQ(found, IOATTN_OK) << ioattn_last_error();
    EXPECT_GT(cache.size_bytes, smaller);
    EXPECT_GE(cache.size_bytes, cache.share_bytes);
    EXPECT_EQ(cache.words_f32, level == 1 ? cache.share_bytes / 8 : cache.share_bytes * 3 / 16);
    EXPECT_EQ(cache.words_f64, level == 1 ? cache.share_bytes / 16 : cache.share_bytes * 3 / 32);
    // As the header says; 0 is unknown.
    const std::set<std::string> sources = {"override", "hwloc", "sysfs", "assumed"};
    EXPECT_EQ(sources.count(cache.source), 1U) << cache.source;
    EXPECT_GE(cache.line_bytes, 0);
    EXPECT_GE(cache.ways, 0);
    EXPECT_GE(cache.sharing_cpus, 0);
    smaller = cache.size_bytes;
  }
}

// Words cannot fall below one read of every input and one write of every output.
TEST(Introspection, BoundsAreAtLeastCompulsory) {
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    for (const ioattn_class algorithms : {IOATTN_CLASS_PEBBLE, IOATTN_CLASS_FMA}) {
      double few = 0, many = 0;
      const char* name = nullptr;
      ASSERT_EQ(ioattn_layer_bound(pass, algorithms, IOATTN_TIE_NONE, 512, 512, 64, 64, 1 << 20,
                                   &few, &name),
                IOATTN_OK);
      EXPECT_STRNE(name, "none");
      const double a_and_weights = 3 * 512 * 64 + 2 * 64 * 64, per_query = 512 * 64;
      EXPECT_GE(few, a_and_weights + per_query);
      ASSERT_EQ(ioattn_layer_bound(pass, algorithms, IOATTN_TIE_NONE, 512, 512, 64, 64, 400, &many,
                                   nullptr),
                IOATTN_OK);
      EXPECT_GT(many, few);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
