// Every way to be refused: the status, a message that names what is wrong, outputs untouched.

#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>
#include <thread>

#include "api/isa_variable.hpp"
#include "api/layer_call.hpp"
#include "api/raw_values.h"
#include "api/refused.hpp"

namespace ioattn_test {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
const CaseShape shape = {9, 7, 5, 4, Ties::none};

// Both passes of a problem that has been made wrong, on outputs that are checked.
struct Refusal {
  LayerCall<float> call{shape, 2};

  void expect_both(ioattn_status wanted, std::initializer_list<const char*> words,
                   const ioattn_options* options = nullptr) {
    expect_refused(call.forward(options), wanted, words);
    expect_refused(call.backward(options), wanted, words);
    expect_refused(call.whole_backward(options), wanted, words);
    EXPECT_TRUE(call.untouched());
  }
};

TEST(Status, StringsAreDistinct) {
  std::set<std::string> strings;
  for (int status = IOATTN_OK; status <= IOATTN_INTERNAL; ++status) {
    ASSERT_NE(raw_status_string(status), nullptr);
    strings.insert(raw_status_string(status));
  }
  EXPECT_EQ(strings.size(), 8u);
  EXPECT_EQ(strings.count(""), 0u);
  for (const int unknown : {8, 99, -1}) {
    ASSERT_NE(raw_status_string(unknown), nullptr);
    EXPECT_EQ(strings.count(raw_status_string(unknown)), 0u);
  }
}

TEST(Status, NullProblem) {
  LayerCall<float> call(shape, 0);
  expect_refused(ioattn_layer_forward(nullptr, nullptr, call.o.data(), 0, call.lse.data()),
                 IOATTN_INVALID_ARGUMENT, {"problem", "null"});
  expect_refused(
      backward_dx(nullptr, nullptr, call.d_o.data(), 0, nullptr, 0, nullptr, call.dx.data(), 0),
      IOATTN_INVALID_ARGUMENT, {"problem", "null"});
  EXPECT_TRUE(call.untouched());
}

TEST(Status, StructSizes) {
  for (const std::size_t size : {std::size_t{0}, sizeof(ioattn_layer_problem) - 1,
                                 sizeof(ioattn_layer_problem) + 8, SIZE_MAX}) {
    Refusal refusal;
    refusal.call.problem.struct_size = size;
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"problem", "struct_size"});
  }
  for (const std::size_t size : {std::size_t{0}, sizeof(ioattn_options) - 1, SIZE_MAX}) {
    Refusal refusal;
    ioattn_options options = default_options();
    options.struct_size = size;
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"options", "struct_size"}, &options);
  }
}

TEST(Status, NullInputs) {
  const struct {
    const char* name;
    const void* ioattn_layer_problem::*pointer;
  } inputs[] = {{"A1", &ioattn_layer_problem::a1},
                {"A2", &ioattn_layer_problem::a2},
                {"A3", &ioattn_layer_problem::a3},
                {"X", &ioattn_layer_problem::x},
                {"Y", &ioattn_layer_problem::y}};
  for (const auto& input : inputs) {
    Refusal refusal;
    refusal.call.problem.*input.pointer = nullptr;
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {input.name, "null"});
  }

  LayerCall<float> call(shape, 0);
  const auto backward = [&](const void* d_o, const void* o, const void* lse) {
    return backward_dx(&call.problem, nullptr, d_o, 0, o, 0, lse, call.dx.data(), 0);
  };
  expect_refused(backward(nullptr, call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT,
                 {"dO", "null"});
  expect_refused(backward(nullptr, nullptr, nullptr), IOATTN_INVALID_ARGUMENT, {"dO", "null"});
  expect_refused(backward(call.d_o.data(), nullptr, call.lse.data()), IOATTN_INVALID_ARGUMENT,
                 {"o and lse", "null"});
  expect_refused(backward(call.d_o.data(), call.o.data(), nullptr), IOATTN_INVALID_ARGUMENT,
                 {"o and lse", "null"});
  EXPECT_TRUE(call.untouched());
}

TEST(Status, NegativeSizes) {
  for (std::int64_t ioattn_layer_problem::*size :
       {&ioattn_layer_problem::n, &ioattn_layer_problem::m, &ioattn_layer_problem::d,
        &ioattn_layer_problem::dv}) {
    for (const std::int64_t value : {std::int64_t{-1}, -most - 1}) {
      Refusal refusal;
      refusal.call.problem.*size = value;
      refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"negative"});
    }
  }
}

TEST(Status, ScalesThatFloatsDoNotHave) {
  for (const double scale : {HUGE_VAL, 1e39, -1e39, 1e-46, -1e-46}) {
    Refusal refusal;
    refusal.call.problem.scale = scale;
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"scale", "float32"});
  }
}

TEST(Status, StridesBelowTheRowLength) {
  const struct {
    const char* name;
    std::int64_t ioattn_layer_problem::*stride;
    std::int64_t row_length;
  } inputs[] = {{"A1", &ioattn_layer_problem::a1_stride, 5},
                {"A2", &ioattn_layer_problem::a2_stride, 5},
                {"A3", &ioattn_layer_problem::a3_stride, 5},
                {"X", &ioattn_layer_problem::x_stride, 5},
                {"Y", &ioattn_layer_problem::y_stride, 4}};
  for (const auto& input : inputs) {
    for (const std::int64_t stride : {input.row_length - 1, std::int64_t{-1}, -most - 1}) {
      Refusal refusal;
      refusal.call.problem.*input.stride = stride;
      refusal.expect_both(IOATTN_INVALID_ARGUMENT, {input.name, "stride"});
    }
  }
  for (const std::int64_t stride : {std::int64_t{3}, std::int64_t{-1}, -most - 1}) {
    LayerCall<float> call(shape, 0);
    expect_refused(
        ioattn_layer_forward(&call.problem, nullptr, call.o.data(), stride, call.lse.data()),
        IOATTN_INVALID_ARGUMENT, {"O", "stride"});
    const auto backward = [&](std::int64_t d_o, std::int64_t o, std::int64_t dx) {
      return backward_dx(&call.problem, nullptr, call.d_o.data(), d_o, call.o.data(), o,
                         call.lse.data(), call.dx.data(), dx);
    };
    expect_refused(backward(stride, 0, 0), IOATTN_INVALID_ARGUMENT, {"dO", "stride"});
    expect_refused(backward(0, stride, 0), IOATTN_INVALID_ARGUMENT, {"O", "stride"});
    expect_refused(backward(0, 0, stride), IOATTN_INVALID_ARGUMENT, {"dX", "stride"});
    EXPECT_TRUE(call.untouched());
  }
}

template <class T>
const void* misaligned(const T* pointer, std::size_t bytes) {
  return reinterpret_cast<const char*>(pointer) + bytes;
}

TEST(Status, Misaligned) {
  for (const std::size_t bytes : {1u, 2u, 3u}) {
    Refusal refusal;
    refusal.call.problem.a2 = misaligned(refusal.call.a2.data(), bytes);
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"A2", "aligned"});
  }
  // 4 bytes off is aligned in f32 and not in f64.
  LayerCall<double> call(shape, 1);
  call.problem.x = misaligned(call.x.data(), 4);
  expect_refused(call.forward(), IOATTN_INVALID_ARGUMENT, {"X", "aligned"});
  call.problem.x = call.x.data();
  const auto at = [](double* pointer) {
    return static_cast<void*>(reinterpret_cast<char*>(pointer) + 4);
  };
  expect_refused(ioattn_layer_forward(&call.problem, nullptr, at(call.o.data()), 0, nullptr),
                 IOATTN_INVALID_ARGUMENT, {"O", "aligned"});
  expect_refused(ioattn_layer_forward(&call.problem, nullptr, nullptr, 0, at(call.lse.data())),
                 IOATTN_INVALID_ARGUMENT, {"LSE", "aligned"});
  expect_refused(backward_dx(&call.problem, nullptr, call.d_o.data(), 0, call.o.data(), 0,
                             call.lse.data(), at(call.dx.data()), 0),
                 IOATTN_INVALID_ARGUMENT, {"dX", "aligned"});
  EXPECT_TRUE(call.untouched());
}

// One buffer holds an input and an output: they may touch, not overlap.
TEST(Status, OutputsMayTouchInputsButNotOverlapThem) {
  for (const std::int64_t stride : {5, 8}) {
    LayerCall<float> call(shape, 0);
    const std::int64_t end = (9 - 1) * stride + 5;  // behind the last element of A1
    std::vector<float> buffer(static_cast<std::size_t>(end + 9 * 4), 1.0f);
    for (std::size_t i = 0; i < 9; ++i)
      for (std::size_t k = 0; k < 5; ++k)
        buffer[i * static_cast<std::size_t>(stride) + k] = call.a1.at(i, k);
    call.problem.a1 = buffer.data();
    call.problem.a1_stride = stride;
    const std::vector<float> before = buffer;
    for (const std::int64_t offset : {std::int64_t{0}, stride + 1, end - 1}) {
      expect_refused(
          ioattn_layer_forward(&call.problem, nullptr, buffer.data() + offset, 0, nullptr),
          IOATTN_INVALID_ARGUMENT, {"A1", "O", "overlap"});
      expect_refused(
          ioattn_layer_forward(&call.problem, nullptr, nullptr, 0, buffer.data() + offset),
          IOATTN_INVALID_ARGUMENT, {"A1", "LSE", "overlap"});
      EXPECT_TRUE(same_bits(buffer, before)) << offset;
    }
    ASSERT_EQ(ioattn_layer_forward(&call.problem, nullptr, buffer.data() + end, 0, nullptr),
              IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(ioattn_layer_forward(&call.problem, nullptr, call.o.data(), 0, nullptr), IOATTN_OK);
    const std::vector<float> behind(buffer.begin() + end, buffer.end());
    EXPECT_TRUE(same_bits(behind, call.o.dense()));
  }
}

TEST(Status, OutputsDoNotOverlapOneAnother) {
  // dX [5, 5] with rows 12 apart; everything else that a backward pass touches, laid into its rows.
  LayerCall<float> call(shape, 7);
  const std::vector<float> a1 = call.a1.dense();
  expect_refused(ioattn_layer_forward(&call.problem, nullptr, call.o.data(), call.o.stride(),
                                      call.o.data() + 8 * call.o.stride() + 3),
                 IOATTN_INVALID_ARGUMENT, {"O", "LSE", "overlap"});
  const auto backward = [&](const float* d_o, const float* o, const float* lse, float* dx) {
    return backward_dx(&call.problem, nullptr, d_o, 11, o, 11, lse, dx, 12);
  };
  const float* d_o = call.d_o.data();
  expect_refused(backward(d_o, call.o.data(), call.lse.data(), call.o.data() + 2),
                 IOATTN_INVALID_ARGUMENT, {"O", "dX", "overlap"});
  expect_refused(backward(call.dx.data() + 12, call.o.data(), call.lse.data(), call.dx.data()),
                 IOATTN_INVALID_ARGUMENT, {"dO", "dX", "overlap"});
  expect_refused(backward(d_o, call.o.data(), call.dx.data() + 52, call.dx.data()),
                 IOATTN_INVALID_ARGUMENT, {"LSE", "dX", "overlap"});
  for (float* input :
       {call.a1.data(), call.a2.data(), call.a3.data(), call.x.data(), call.y.data()})
    expect_refused(backward(d_o, call.o.data(), call.lse.data(), input + 1),
                   IOATTN_INVALID_ARGUMENT, {"dX", "overlap"});
  EXPECT_TRUE(call.untouched());
  EXPECT_TRUE(same_bits(call.a1.dense(), a1));
}

// Pointers to nothing: sizes are judged before anything is read.
TEST(Status, SizesThatOverflow) {
  LayerCall<float> call(shape, 0);
  ioattn_layer_problem fake = call.problem;
  void* nowhere = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  void* elsewhere = reinterpret_cast<void*>(std::uintptr_t{0x2000});
  fake.a1 = fake.a2 = fake.a3 = fake.x = fake.y = nowhere;
  fake.a1_stride = fake.a2_stride = fake.a3_stride = fake.x_stride = fake.y_stride = 0;
  const std::int64_t sizes[][4] = {
      {std::int64_t{1} << 22, std::int64_t{1} << 22, std::int64_t{1} << 22, 1},  // n m d = 2^66
      {most, 1, 1, 1},
      {1, most, 1, 1},
      {1, 1, most, 1},
      {1, 1, 1, most},
      {most, most, most, most},
      {std::int64_t{1} << 31, 1, std::int64_t{1} << 32, 1},
  };
  for (const auto& size : sizes) {
    fake.n = size[0];
    fake.m = size[1];
    fake.d = size[2];
    fake.dv = size[3];
    for (const ioattn_dtype dtype : {IOATTN_F32, IOATTN_F64}) {
      fake.dtype = dtype;
      expect_refused(ioattn_layer_forward(&fake, nullptr, elsewhere, 0, nullptr),
                     IOATTN_SIZE_OVERFLOW, {"64 bits"});
      expect_refused(backward_dx(&fake, nullptr, nowhere, 0, nowhere, 0, nowhere, elsewhere, 0),
                     IOATTN_SIZE_OVERFLOW, {"64 bits"});
      expect_refused(backward_dx(&fake, nullptr, nowhere, 0, nullptr, 0, nullptr, elsewhere, 0),
                     IOATTN_SIZE_OVERFLOW, {"64 bits"});
    }
    ioattn_layer_gradients none = {};
    none.struct_size = sizeof none;
    expect_refused(ioattn_layer_backward(&fake, nullptr, nowhere, 0, nullptr, 0, nullptr, &none),
                   IOATTN_SIZE_OVERFLOW, {"64 bits"});
    double words = -1;
    expect_refused(ioattn_layer_bound(IOATTN_BACKWARD, IOATTN_CLASS_FMA, IOATTN_TIE_NONE, size[0],
                                      size[1], size[2], size[3], 1000, &words, nullptr),
                   IOATTN_SIZE_OVERFLOW, {"64 bits"});
    EXPECT_EQ(words, -1);
  }
}

TEST(Status, StridesAndAddressesThatOverflow) {
  for (const std::int64_t stride : {most, most / 8, most / 16 + 1}) {
    Refusal refusal;
    refusal.call.problem.a1_stride = stride;
    refusal.expect_both(IOATTN_SIZE_OVERFLOW, {"A1", "64 bits"});
    LayerCall<float> call(shape, 0);
    expect_refused(
        ioattn_layer_forward(&call.problem, nullptr, call.o.data(), stride, call.lse.data()),
        IOATTN_SIZE_OVERFLOW, {"O", "64 bits"});
    expect_refused(backward_dx(&call.problem, nullptr, call.d_o.data(), 0, nullptr, 0, nullptr,
                               call.dx.data(), stride),
                   IOATTN_SIZE_OVERFLOW, {"dX", "64 bits"});
    EXPECT_TRUE(call.untouched());
  }
  Refusal refusal;  // an array that would end beyond the address space
  refusal.call.problem.a1 = reinterpret_cast<void*>(~std::uintptr_t{0} - 63);
  refusal.expect_both(IOATTN_SIZE_OVERFLOW, {"A1", "64 bits"});
}

TEST(Status, UnknownValues) {
  for (const int dtype : {4, 7, -1, 1 << 30}) {
    Refusal refusal;
    raw_set_dtype(&refusal.call.problem, dtype);
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"dtype"});
  }
  const std::function<void(ioattn_options*)> wrong[] = {
      [](ioattn_options* o) { o->threads = -1; },
      [](ioattn_options* o) { o->cache_level = 4; },
      [](ioattn_options* o) { o->cache_level = -1; },
      [](ioattn_options* o) { o->fast_memory_words = -1; },
      [](ioattn_options* o) { o->memory_limit = -1; },
  };
  const char* names[] = {"threads", "cache_level", "cache_level", "fast_memory_words",
                         "memory_limit"};
  for (std::size_t i = 0; i < std::size(wrong); ++i) {
    Refusal refusal;
    ioattn_options options = default_options();
    wrong[i](&options);
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"options", names[i]}, &options);
  }
  double words = -1;
  EXPECT_EQ(raw_layer_bound(IOATTN_FORWARD, IOATTN_CLASS_FMA, IOATTN_TIE_ALL, &words), IOATTN_OK);
  words = -1;
  for (const int unknown : {-1, 3, 1000}) {
    expect_refused(raw_layer_bound(unknown, 0, 0, &words), IOATTN_INVALID_ARGUMENT, {"pass"});
    expect_refused(raw_layer_bound(0, unknown, 0, &words), IOATTN_INVALID_ARGUMENT, {"class"});
    expect_refused(raw_layer_bound(0, 0, unknown, &words), IOATTN_INVALID_ARGUMENT, {"tie"});
  }
  EXPECT_EQ(words, -1);
}

TEST(Status, UnknownSchedules) {
  const std::string long_name(1000, 'x');
  for (const char* schedule : {"", "row_strea", "row_stream ", "ROW_STREAM", long_name.c_str()}) {
    Refusal refusal;
    const ioattn_options options = with_schedule(schedule);
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"schedule"}, &options);
  }
  Refusal refusal;
  const ioattn_options options = with_schedule("naive");
  expect_refused(refusal.call.forward(&options), IOATTN_UNSUPPORTED, {"naive", "forward"});
  EXPECT_TRUE(refusal.call.untouched());
}

// The message of a refusal names the least M; that M works and one word less does not.
std::int64_t least_words() {
  const std::string message = ioattn_last_error();
  const std::string before = "the least is ";
  const std::size_t at = message.find(before);
  return at == std::string::npos ? -1 : std::stoll(message.substr(at + before.size()));
}

TEST(Status, TooLittleFastMemory) {
  for (const CaseShape& problem :
       {CaseShape{9, 7, 5, 4, Ties::none}, CaseShape{20, 20, 6, 30, Ties::all},
        CaseShape{12, 31, 17, 3, Ties::keys_values}}) {
    for (const char* schedule : and_auto(backward_schedules)) {
      LayerCall<double> call(problem, 1);
      ASSERT_EQ(call.forward(), IOATTN_OK);
      const std::vector<double> results = call.o.dense();
      const std::function<ioattn_status(const ioattn_options*)> passes[] = {
          [&](const ioattn_options* options) { return call.backward(options); },
          [&](const ioattn_options* options) { return call.whole_backward(options); },
          [&](const ioattn_options* options) { return call.forward(options); }};
      for (std::size_t pass = 0; pass < 3; ++pass) {
        if (pass == 2 && !has_forward_pass(schedule)) continue;
        SCOPED_TRACE(name_of(problem) + ' ' + schedule + " pass " + std::to_string(pass));
        ioattn_options options = with_schedule(schedule);
        options.fast_memory_words = 1;
        expect_refused(passes[pass](&options), IOATTN_FAST_MEMORY_TOO_SMALL,
                       {"M = 1 ", "the least is "});
        std::int64_t least = least_words();
        ASSERT_GT(least, 1);
        options.fast_memory_words = least;
        // A call that runs both passes may need more for the other one.
        if (pass == 1 && passes[pass](&options) == IOATTN_FAST_MEMORY_TOO_SMALL) {
          ASSERT_GT(least_words(), least);
          least = least_words();
        }
        call.dx.fill_with_pattern();
        options.fast_memory_words = least - 1;
        expect_refused(passes[pass](&options), IOATTN_FAST_MEMORY_TOO_SMALL, {});
        EXPECT_TRUE(call.dx.untouched());
        EXPECT_TRUE(same_bits(call.o.dense(), results));
        options.fast_memory_words = least;
        ASSERT_EQ(passes[pass](&options), IOATTN_OK) << ioattn_last_error();
        if (pass == 2) {
          call.expect_forward();
        } else {
          call.expect_backward();
        }
        call.dx.fill_with_pattern();
      }
    }
  }
}

TEST(Status, MemoryLimit) {
  for (const char* schedule : {"naive", "paper_small", "paper_large"}) {
    LayerCall<double> call(shape, 1);
    ioattn_options options = with_schedule(schedule);
    options.memory_limit = 1;
    if (has_forward_pass(schedule))
      expect_refused(call.forward(&options), IOATTN_MEMORY_LIMIT, {"1 bytes", "forward"});
    EXPECT_TRUE(call.untouched());
    ASSERT_EQ(call.forward(), IOATTN_OK);
    expect_refused(call.backward(&options), IOATTN_MEMORY_LIMIT, {"1 bytes", "backward"});
    EXPECT_TRUE(call.dx.untouched());
    options.memory_limit = 1 << 20;
    ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    call.expect_backward();
  }
  // Nothing that fits in 5 words does without the scores in memory.
  LayerCall<float> call({30, 30, 40, 40, Ties::none}, 0);
  ioattn_options options = default_options();
  options.fast_memory_words = 5;
  expect_refused(call.forward(&options), IOATTN_FAST_MEMORY_TOO_SMALL, {"the least is"});
  options.memory_limit = 1000;
  expect_refused(call.forward(&options), IOATTN_MEMORY_LIMIT, {"1000 bytes"});
  EXPECT_TRUE(call.untouched());
  options.memory_limit = 1 << 20;
  ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
  call.expect_forward();
}

TEST(Status, IntrospectionArguments) {
  expect_refused(ioattn_selected_isa(nullptr), IOATTN_INVALID_ARGUMENT, {"name", "null"});
  expect_refused(ioattn_machine_cache(2, nullptr), IOATTN_INVALID_ARGUMENT, {"cache", "null"});
  ioattn_cache cache;
  std::memset(&cache, 0x5a, sizeof cache);
  const ioattn_cache before = cache;
  expect_refused(ioattn_machine_cache(2, &cache), IOATTN_INVALID_ARGUMENT, {"struct_size"});
  EXPECT_EQ(std::memcmp(&cache, &before, sizeof cache), 0);
  cache.struct_size = sizeof cache;
  for (const int level : {0, -1, 4, std::numeric_limits<int>::max()}) {
    expect_refused(ioattn_machine_cache(level, &cache), IOATTN_UNSUPPORTED, {"cache"});
    EXPECT_EQ(cache.size_bytes, before.size_bytes);
  }
  double words = -1;
  const auto bound = [&](ioattn_tie tie, std::int64_t n, std::int64_t m, std::int64_t d,
                         std::int64_t dv, std::int64_t M) {
    return ioattn_layer_bound(IOATTN_FORWARD, IOATTN_CLASS_PEBBLE, tie, n, m, d, dv, M, &words,
                              nullptr);
  };
  expect_refused(ioattn_layer_bound(IOATTN_FORWARD, IOATTN_CLASS_PEBBLE, IOATTN_TIE_NONE, 8, 8, 4,
                                    4, 64, nullptr, nullptr),
                 IOATTN_INVALID_ARGUMENT, {"words", "null"});
  for (const std::int64_t small : {std::int64_t{0}, std::int64_t{-1}, -most - 1}) {
    const auto refused = [&](ioattn_status status) {
      expect_refused(status, IOATTN_INVALID_ARGUMENT, {"below 1"});
    };
    refused(bound(IOATTN_TIE_NONE, small, 8, 4, 4, 64));
    refused(bound(IOATTN_TIE_NONE, 8, small, 4, 4, 64));
    refused(bound(IOATTN_TIE_NONE, 8, 8, small, 4, 64));
    refused(bound(IOATTN_TIE_NONE, 8, 8, 4, small, 64));
    refused(bound(IOATTN_TIE_NONE, 8, 8, 4, 4, small));
  }
  expect_refused(bound(IOATTN_TIE_ALL, 8, 9, 4, 4, 64), IOATTN_INVALID_ARGUMENT, {"n = m"});
  EXPECT_EQ(words, -1);
}

TEST_F(IsaVariable, UnknownNamesAreInvalid) {
  for (const char* name : {"avx1024", "AVX2", "avx2 ", "scalar,avx2"}) {
    setenv("IOATTN_ISA", name, 1);
    const char* selected = nullptr;
    expect_refused(ioattn_selected_isa(&selected), IOATTN_INVALID_ARGUMENT, {"IOATTN_ISA", name});
    EXPECT_EQ(selected, nullptr);
    Refusal refusal;
    refusal.expect_both(IOATTN_INVALID_ARGUMENT, {"IOATTN_ISA", name});
  }
}

TEST_F(IsaVariable, EveryIsaIsUsedOrUnsupported) {
  setenv("IOATTN_ISA", "", 1);  // as if unset
  const char* best = nullptr;
  ASSERT_EQ(ioattn_selected_isa(&best), IOATTN_OK);
  bool best_seen = false;
  std::set<std::vector<float>> results;
  std::size_t used = 0;
  std::int32_t available = 0;
  for (std::int32_t i = 0; const char* name = ioattn_isa(i, &available); ++i) {
    SCOPED_TRACE(name);
    setenv("IOATTN_ISA", name, 1);
    const char* selected = nullptr;
    if (available == 0) {
      expect_refused(ioattn_selected_isa(&selected), IOATTN_UNSUPPORTED, {"IOATTN_ISA", name});
      EXPECT_EQ(selected, nullptr);
      Refusal refusal;
      refusal.expect_both(IOATTN_UNSUPPORTED, {"IOATTN_ISA", name});
      continue;
    }
    EXPECT_TRUE(best_seen || std::string(name) == best);
    best_seen = true;
    ASSERT_EQ(ioattn_selected_isa(&selected), IOATTN_OK);
    EXPECT_STREQ(selected, name);
    LayerCall<float> call({40, 50, 30, 20, Ties::none}, 1);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    call.expect_backward();
    results.insert(call.outputs());
    ++used;
  }
  EXPECT_TRUE(best_seen);
  // Other kernels round otherwise: had the variable no effect, all results would be one.
  EXPECT_TRUE(used < 2 || results.size() > 1);
}

TEST(LastError, BelongsToTheThread) {
  double words = 0;
  EXPECT_EQ(raw_layer_bound(99, 0, 0, &words), IOATTN_INVALID_ARGUMENT);
  const std::string mine = ioattn_last_error();
  std::string first, others;
  std::thread([&] {
    first = ioattn_last_error();
    EXPECT_EQ(ioattn_selected_isa(nullptr), IOATTN_INVALID_ARGUMENT);
    others = ioattn_last_error();
  }).join();
  EXPECT_EQ(first, "");
  EXPECT_NE(others, "");
  EXPECT_NE(others, mine);
  EXPECT_EQ(ioattn_last_error(), mine);
  // A success leaves the message.
  EXPECT_EQ(raw_layer_bound(0, 0, 0, &words), IOATTN_OK);
  EXPECT_EQ(ioattn_last_error(), mine);
}

}  // namespace
}  // namespace ioattn_test
