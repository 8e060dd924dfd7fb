// Batch, scale and mask through the C functions and ioattn.hpp: the results, and every way to be
// refused.

#include <cmath>

#include "api/batch_call.hpp"
#include "api/raw_values.h"
#include "api/refused.hpp"
#include "ioattn/ioattn.hpp"

namespace ioattn_test {
namespace {

const CaseShape entries[] = {
    {19, 27, 9, 6, Ties::none}, {31, 17, 8, 11, Ties::keys_values}, {23, 23, 12, 7, Ties::all}};

template <class T>
class LayerOptions : public testing::Test {};
TYPED_TEST_SUITE(LayerOptions, BothTypes);

TYPED_TEST(LayerOptions, EveryMaskScaleAndBatch) {
  std::size_t round = 0;
  for (const CaseShape& entry : entries) {
    for (const MaskCase& mask : mask_cases) {
      for (const std::int64_t batch : {1, 3}) {
        const double scale = round % 3 == 0 ? 1 : round % 3 == 1 ? 0.375 : -1.5;
        const BatchShape shape = {entry, batch, scale, mask};
        SCOPED_TRACE(name_of(shape));
        BatchCall<TypeParam> call(shape, round % 2 == 0 ? 0 : 3);
        ioattn_options options = default_options();
        options.fast_memory_words = round % 4 == 0 ? 0 : 900;
        ++round;
        call.reset();
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        EXPECT_TRUE(call.gradients_untouched());
        call.expect_forward();
        for (const bool all : {true, false}) {
          call.want(all);
          call.reset_gradients();
          ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
          call.expect_backward();
          call.reset_gradients();
          ASSERT_EQ(call.whole_backward(&options), IOATTN_OK) << ioattn_last_error();
          call.expect_backward();
        }
      }
    }
  }
}

// Schedules without masks take a batch and a scale.
TYPED_TEST(LayerOptions, BatchAndScaleByEverySchedule) {
  for (const CaseShape& entry : entries) {
    BatchCall<TypeParam> call({entry, 3, 0.75, {}}, 1);
    call.want(false);
    for (const char* schedule : backward_schedules) {
      SCOPED_TRACE(name_of(call.shape) + ' ' + schedule);
      const ioattn_options options = with_schedule(schedule);
      call.reset();
      ASSERT_EQ(call.forward(has_forward_pass(schedule) ? &options : nullptr), IOATTN_OK)
          << ioattn_last_error();
      call.expect_forward();
      ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
      call.reset_gradients();
      ASSERT_EQ(call.whole_backward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
    }
  }
}

// The same gradients in one matrix: dA where operands are one memory.
TYPED_TEST(LayerOptions, SumOverTiedOperandsOfABatch) {
  BatchCall<TypeParam> call({entries[2], 3, 1, {IOATTN_MASK_CAUSAL_TOP_LEFT}}, 2);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  Strided<TypeParam> sum(3 * 23, 12, 1);
  ioattn_layer_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  gradients.da = sum.data();
  gradients.da_stride = sum.stride();
  ASSERT_EQ(ioattn_layer_backward(&call.problem, nullptr, call.d_o.data(), call.d_o.stride(),
                                  call.o.data(), call.o.stride(), call.lse.data(), &gradients),
            IOATTN_OK)
      << ioattn_last_error();
  const std::vector<TypeParam> got = sum.dense(), a1 = call.out[2].dense(),
                               a2 = call.out[3].dense(), a3 = call.out[4].dense();
  double largest = 0;
  for (const TypeParam value : got) largest = std::max(largest, std::abs(double(value)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(double(a1[i]) + double(a2[i]) + double(a3[i]) - got[i]);
    EXPECT_LE(difference, 64 * std::numeric_limits<TypeParam>::epsilon() * largest) << i;
  }
  EXPECT_TRUE(sum.padding_untouched());
}

TYPED_TEST(LayerOptions, ZeroMeansOne) {
  BatchCall<TypeParam> call({entries[0], 1, 1, {IOATTN_MASK_CAUSAL_BOTTOM_RIGHT}}, 1);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  const auto expected = call.outputs();
  call.problem.batch = 0;
  call.problem.scale = 0;
  call.reset();
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  EXPECT_TRUE(same_bits(call.outputs(), expected));
  // A plan for 0 is one for 1.
  ioattn_layer_shape planned = call.planned_shape();
  for (const std::int64_t one : {0, 1}) {
    planned.batch = one;
    planned.scale = static_cast<double>(one);
    call.problem.batch = 1 - one;
    call.problem.scale = static_cast<double>(1 - one);
    ioattn_plan* plan = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &planned, nullptr, nullptr, &plan),
              IOATTN_OK);
    EXPECT_EQ(ioattn_layer_execute_forward(plan, &call.problem, call.o.data(), call.o.stride(),
                                           call.lse.data(), nullptr, 0),
              IOATTN_OK)
        << ioattn_last_error();
    ioattn_plan_destroy(plan);
  }
  EXPECT_TRUE(same_bits(call.outputs(), expected));
}

// A window beyond all keys and queries changes no bit, nor do limits without a window.
TYPED_TEST(LayerOptions, WindowsBeyondTheEndsHideNothing) {
  BatchCall<TypeParam> call({entries[0], 2, 0.5, {}}, 0);
  const ioattn_options options = with_schedule("row_stream");
  const auto bits = [&] {
    call.reset();
    EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
    EXPECT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
    return call.outputs();
  };
  const auto expected = bits();
  call.problem.window_left = -77;
  call.problem.window_right = 0;
  EXPECT_TRUE(same_bits(bits(), expected)) << "limits without a window";
  for (const ioattn_mask mask : {IOATTN_MASK_WINDOW_TOP_LEFT, IOATTN_MASK_WINDOW_BOTTOM_RIGHT}) {
    for (const std::int64_t limit : {std::int64_t{-1}, std::int64_t{100}, std::int64_t{1} << 60}) {
      call.problem.mask = mask;
      call.problem.window_left = call.problem.window_right = limit;
      EXPECT_TRUE(same_bits(bits(), expected)) << mask << " limit " << limit;
    }
  }
}

// Of other empty problems too every entry of a gradient is 0.
TYPED_TEST(LayerOptions, GradientsOfEmptyBatchesAreZero) {
  for (const CaseShape& entry : {CaseShape{0, 5, 3, 2, Ties::none}, {5, 4, 3, 0, Ties::none}}) {
    BatchCall<TypeParam> call({entry, 3, 0.5, mask_cases[2]}, 1);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    for (std::size_t i = 0; i < batch_output_count; ++i)
      for (const TypeParam value : call.out[i].dense())
        EXPECT_EQ(value, 0) << batch_outputs[i].name;
  }
}

// An output that is not wanted needs room for every entry all the same: an entry of this size too
// little, and the heap does not survive it.
TYPED_TEST(LayerOptions, NullOutputsOfABatch) {
  BatchCall<TypeParam> call({{300, 20, 4, 200, Ties::none}, 4, 1, {}}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto o = call.o.dense(), lse = call.lse.dense();
  call.reset();
  ASSERT_EQ(ioattn_layer_forward(&call.problem, nullptr, call.o.data(), 0, nullptr), IOATTN_OK);
  EXPECT_TRUE(same_bits(call.o.dense(), o));
  EXPECT_TRUE(call.lse.untouched());
  call.reset();
  ASSERT_EQ(ioattn_layer_forward(&call.problem, nullptr, nullptr, 0, call.lse.data()), IOATTN_OK);
  EXPECT_TRUE(same_bits(call.lse.dense(), lse));
  EXPECT_TRUE(call.o.untouched());
}

TYPED_TEST(LayerOptions, NoVisibleKeyGivesZeros) {
  const auto expect_zeros = [](BatchCall<TypeParam>* call) {
    for (const TypeParam value : call->o.dense()) EXPECT_EQ(value, 0);
    for (const TypeParam value : call->lse.dense())
      EXPECT_EQ(value, -std::numeric_limits<TypeParam>::infinity());
    for (std::size_t i = 0; i < batch_output_count; ++i) {
      for (const TypeParam value : call->out[i].dense())
        EXPECT_EQ(value, 0) << batch_outputs[i].name;
      EXPECT_TRUE(call->out[i].padding_untouched());
    }
  };
  for (const MaskCase& mask : mask_cases) {
    SCOPED_TRACE(mask.mask);
    BatchCall<TypeParam> call({{5, 0, 3, 2, Ties::none}, 2, 0.5, mask}, 1);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    expect_zeros(&call);
    call.reset();
    const ioattn_layer_shape planned = call.planned_shape();
    ioattn_plan *forward = nullptr, *backward = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &planned, nullptr, nullptr, &forward),
              IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(
        ioattn_layer_plan_create(IOATTN_BACKWARD, &planned, &call.gradients, nullptr, &backward),
        IOATTN_OK)
        << ioattn_last_error();
    for (const ioattn_plan* plan : {forward, backward}) {
      std::size_t bytes = 1, needed = 0;
      EXPECT_EQ(ioattn_plan_workspace_size(plan, &bytes), IOATTN_OK);
      EXPECT_EQ(bytes, 0u);
      EXPECT_EQ(ioattn_plan_describe(plan, nullptr, 0, &needed), IOATTN_OK) << ioattn_last_error();
    }
    ASSERT_EQ(ioattn_layer_execute_forward(forward, &call.problem, call.o.data(), call.o.stride(),
                                           call.lse.data(), nullptr, 0),
              IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(ioattn_layer_execute_backward(backward, &call.problem, call.d_o.data(),
                                            call.d_o.stride(), call.o.data(), call.o.stride(),
                                            call.lse.data(), &call.gradients, nullptr, 0),
              IOATTN_OK)
        << ioattn_last_error();
    expect_zeros(&call);
    ioattn_plan_destroy(forward);
    ioattn_plan_destroy(backward);
  }
}

// d = 0: scores are 0, so LSE is the logarithm of the number of keys that a query sees.
TYPED_TEST(LayerOptions, WithoutColumnsLseCountsVisibleKeys) {
  BatchCall<TypeParam> call({{4, 3, 0, 2, Ties::none}, 2, 1, {IOATTN_MASK_CAUSAL_BOTTOM_RIGHT}}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
  const std::vector<TypeParam> lse = call.lse.dense();
  ASSERT_EQ(lse.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(lse[i], i % 4 == 0 ? -std::numeric_limits<TypeParam>::infinity()
                                 : std::log(static_cast<TypeParam>(i % 4)));
  }
  call.expect_forward();
}

// What no query sees, and what of it a gradient would have to be, is 0 and no NaN.
TYPED_TEST(LayerOptions, HiddenNanStaysHidden) {
  BatchCall<TypeParam> call({{9, 20, 6, 5, Ties::none}, 2, 1, {IOATTN_MASK_CAUSAL_TOP_LEFT}}, 0);
  for (const std::size_t row : {9u, 19u, 20u + 9u, 20u + 19u}) {
    call.a2.at(row, 2) = std::numeric_limits<TypeParam>::quiet_NaN();
    call.a3.at(row, 3) = std::numeric_limits<TypeParam>::quiet_NaN();
  }
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  call.expect_forward();
  call.expect_backward();
}

// ---- refused

// Every function that takes a problem or a shape refuses it and touches nothing.
void expect_all_refuse(BatchCall<float>* call, ioattn_status wanted,
                       std::initializer_list<const char*> words,
                       const ioattn_options* options = nullptr) {
  call->reset();
  expect_refused(call->forward(options), wanted, words);
  expect_refused(call->backward(options), wanted, words);
  expect_refused(call->whole_backward(options), wanted, words);
  EXPECT_TRUE(call->untouched());
  const ioattn_layer_shape planned = call->planned_shape();
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    ioattn_plan* plan = nullptr;
    expect_refused(ioattn_layer_plan_create(pass, &planned, nullptr, options, &plan), wanted,
                   words);
    EXPECT_EQ(plan, nullptr);
  }
}

const BatchShape plain = {entries[0], 2, 1, {}};

TEST(LayerOptionsRefused, UnknownMasks) {
  for (const int mask : {-1, 5, 99, 1 << 30}) {
    BatchCall<float> call(plain, 1);
    raw_set_mask(&call.problem, mask);
    call.reset();
    expect_refused(call.forward(), IOATTN_INVALID_ARGUMENT, {"mask"});
    expect_refused(call.backward(), IOATTN_INVALID_ARGUMENT, {"mask"});
    expect_refused(call.whole_backward(), IOATTN_INVALID_ARGUMENT, {"mask"});
    EXPECT_TRUE(call.untouched());
    ioattn_layer_shape planned = BatchCall<float>(plain, 1).planned_shape();
    raw_set_shape_mask(&planned, mask);
    ioattn_plan* plan = nullptr;
    expect_refused(ioattn_layer_plan_create(IOATTN_FORWARD, &planned, nullptr, nullptr, &plan),
                   IOATTN_INVALID_ARGUMENT, {"mask"});
    EXPECT_EQ(plan, nullptr);
  }
}

TEST(LayerOptionsRefused, Windows) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const ioattn_mask mask : {IOATTN_MASK_WINDOW_TOP_LEFT, IOATTN_MASK_WINDOW_BOTTOM_RIGHT}) {
    for (const std::int64_t limit :
         {std::int64_t{-2}, -most - 1, (std::int64_t{1} << 60) + 1, most}) {
      BatchCall<float> call(plain, 1);
      call.problem.mask = mask;
      call.problem.window_left = limit;
      expect_all_refuse(&call, IOATTN_INVALID_ARGUMENT, {"window_left"});
      call.problem.window_left = 1;
      call.problem.window_right = limit;
      expect_all_refuse(&call, IOATTN_INVALID_ARGUMENT, {"window_right"});
    }
  }
}

TEST(LayerOptionsRefused, Scales) {
  for (const double scale :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    BatchCall<float> call(plain, 1);
    call.problem.scale = scale;
    expect_all_refuse(&call, IOATTN_INVALID_ARGUMENT, {"scale"});
  }
}

TEST(LayerOptionsRefused, Batches) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  BatchCall<float> call(plain, 1);
  for (const std::int64_t batch : {std::int64_t{-1}, -most - 1}) {
    call.problem.batch = batch;
    expect_all_refuse(&call, IOATTN_INVALID_ARGUMENT, {"batch"});
  }
  for (const std::int64_t batch : {most, most / 64, std::int64_t{1} << 58}) {
    call.problem.batch = batch;
    expect_all_refuse(&call, IOATTN_SIZE_OVERFLOW, {"batch", "64 bits"});
  }
}

// The diagonal of sizes that overflow must not overflow itself.
TEST(LayerOptionsRefused, SizesThatOverflowUnderAMask) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const MaskCase& mask :
       {MaskCase{IOATTN_MASK_WINDOW_BOTTOM_RIGHT, std::int64_t{1} << 60, std::int64_t{1} << 60},
        MaskCase{IOATTN_MASK_CAUSAL_BOTTOM_RIGHT}}) {
    for (const bool many_keys : {false, true}) {
      BatchCall<float> call({entries[0], 2, 1, mask}, 1);
      (many_keys ? call.problem.m : call.problem.n) = most;
      (many_keys ? call.problem.n : call.problem.m) = 0;
      expect_all_refuse(&call, IOATTN_SIZE_OVERFLOW, {"64 bits"});
    }
  }
}

TEST(LayerOptionsRefused, SchedulesThatTakeNoMask) {
  for (const MaskCase& mask : mask_cases) {
    if (mask.mask == IOATTN_MASK_NONE) continue;
    for (const char* schedule : backward_schedules) {
      if (is_one_of(masked_schedules, schedule)) continue;
      SCOPED_TRACE(schedule);
      BatchCall<float> call({entries[0], 2, 1, mask}, 1);
      call.want(false);
      call.reset();
      const ioattn_options options = with_schedule(schedule);
      const auto refused = [&](ioattn_status status) {
        expect_refused(status, IOATTN_UNSUPPORTED, {schedule, "takes no mask"});
      };
      refused(call.backward(&options));
      refused(call.whole_backward(&options));
      if (has_forward_pass(schedule)) refused(call.forward(&options));
      EXPECT_TRUE(call.untouched());
      const ioattn_layer_shape planned = call.planned_shape();
      ioattn_plan* plan = nullptr;
      refused(ioattn_layer_plan_create(IOATTN_BACKWARD, &planned, nullptr, &options, &plan));
      EXPECT_EQ(plan, nullptr);
    }
  }
}

// A plan's text may name a schedule that takes no mask.
TEST(LayerOptionsRefused, PlansOfSchedulesThatTakeNoMask) {
  const ioattn_options options = with_schedule("paper_small");
  ioattn_layer_shape planned = BatchCall<float>(plain, 1).planned_shape();
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    planned.mask = IOATTN_MASK_NONE;
    ioattn_plan* plan = nullptr;
    ASSERT_EQ(ioattn_layer_plan_create(pass, &planned, nullptr, &options, &plan), IOATTN_OK);
    char text[512];
    ASSERT_EQ(ioattn_plan_text(plan, text, sizeof text, nullptr), IOATTN_OK);
    ioattn_plan_destroy(plan);
    plan = nullptr;
    planned.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
    expect_refused(ioattn_layer_plan_parse(pass, &planned, nullptr, nullptr, text, &plan),
                   IOATTN_UNSUPPORTED, {"paper_small", "mask"});
    EXPECT_EQ(plan, nullptr);
  }
}

// ---- overlaps: all entries of an array count

// Arrays that are to overlap lie in memory of their own, away from all others.
class Overlaps : public testing::Test {
 protected:
  Overlaps() : call({{31, 17, 8, 11, Ties::keys_values}, 3, 1, {}}, 0), arena(8000) {
    call.gradients.da = sum.data();
    EXPECT_EQ(call.forward(), IOATTN_OK);
    reset();
  }
  // What a call reads but Y and A3 = A2.
  struct Reads {
    const float *a1, *a2, *x, *d_o, *o, *lse;
  };
  void reset() {
    reads = {call.a1.data(),  call.a2.data(), call.x.data(),
             call.d_o.data(), call.o.data(),  call.lse.data()};
    for (std::size_t i = 0; i < batch_output_count; ++i)
      call.gradients.*batch_outputs[i].data = call.out[i].data();
    call.gradients.da = sum.data();
  }
  ioattn_layer_problem problem() const {
    ioattn_layer_problem all = call.problem;
    all.a1 = reads.a1;
    all.a2 = all.a3 = reads.a2;
    all.x = reads.x;
    return all;
  }
  ioattn_status backward() {
    const ioattn_layer_problem all = problem();
    return ioattn_layer_backward(&all, nullptr, reads.d_o, 0, reads.o, 0, reads.lse,
                                 &call.gradients);
  }
  ioattn_status forward(float* o, float* lse) {
    const ioattn_layer_problem all = problem();
    return ioattn_layer_forward(&all, nullptr, o, 0, lse);
  }

  BatchCall<float> call;
  Strided<float> sum{3 * 17, 8, 0};
  std::vector<float> arena;
  Reads reads = {};
};

TEST_F(Overlaps, OutputsWithTheLastEntryOfAnInput) {
  const struct {
    const char* name;
    const float* Reads::*pointer;
    std::size_t size;
  } inputs[] = {{"A1", &Reads::a1, 3 * 31 * 8},
                {"A2", &Reads::a2, 3 * 17 * 8},
                {"dO", &Reads::d_o, 3 * 31 * 11},
                {"O", &Reads::o, 3 * 31 * 11},
                {"LSE", &Reads::lse, 3 * 31}};
  for (const BatchOutput& output : batch_outputs) {
    for (const auto& input : inputs) {
      SCOPED_TRACE(std::string(output.name) + " in " + input.name);
      reads.*input.pointer = arena.data();
      call.gradients.*output.data = arena.data() + input.size - 1;
      expect_refused(backward(), IOATTN_INVALID_ARGUMENT, {input.name, output.name, "overlap"});
      call.gradients.*output.data = arena.data() + input.size;
      EXPECT_EQ(backward(), IOATTN_OK) << ioattn_last_error();
      arena.assign(arena.size(), 0);
      reset();
    }
  }
}

// Tied, A3 is found as A2.
TEST_F(Overlaps, OutputsWithTheLastEntryOfValuesOfTheirOwn) {
  call.gradients.da = nullptr;
  ioattn_layer_problem untied = call.problem;
  untied.a3 = arena.data();
  untied.a3_stride = 0;
  const auto run = [&](float* dx) {
    call.gradients.dx = dx;
    return ioattn_layer_backward(&untied, nullptr, reads.d_o, 0, reads.o, 0, reads.lse,
                                 &call.gradients);
  };
  expect_refused(run(arena.data() + 3 * 17 * 8 - 1), IOATTN_INVALID_ARGUMENT,
                 {"A3", "dX", "overlap"});
  EXPECT_EQ(run(arena.data() + 3 * 17 * 8), IOATTN_OK) << ioattn_last_error();
}

TEST_F(Overlaps, LastEntriesOfOutputsWithAnotherArray) {
  const struct {
    const char* name;
    void* ioattn_layer_gradients::*data;
    std::size_t size;
  } outputs[] = {{"dA1", &ioattn_layer_gradients::da1, 3 * 31 * 8},
                 {"dA2", &ioattn_layer_gradients::da2, 3 * 17 * 8},
                 {"dA3", &ioattn_layer_gradients::da3, 3 * 17 * 8},
                 {"dA", &ioattn_layer_gradients::da, 3 * 17 * 8}};
  for (const auto& output : outputs) {
    SCOPED_TRACE(output.name);
    call.gradients.*output.data = arena.data();
    call.gradients.dx = arena.data() + output.size - 1;
    expect_refused(backward(), IOATTN_INVALID_ARGUMENT, {"dX", output.name, "overlap"});
    call.gradients.dx = call.out[0].data();
    reads.x = arena.data() + output.size - 1;
    expect_refused(backward(), IOATTN_INVALID_ARGUMENT, {"X", output.name, "overlap"});
    reads.x = arena.data() + output.size;
    EXPECT_EQ(backward(), IOATTN_OK) << ioattn_last_error();
    arena.assign(arena.size(), 0);
    reset();
  }
}

TEST_F(Overlaps, ForwardOutputs) {
  float *o = call.o.data(), *lse = call.lse.data();
  reads.a1 = arena.data();
  expect_refused(forward(arena.data() + 3 * 31 * 8 - 1, lse), IOATTN_INVALID_ARGUMENT,
                 {"A1", "O", "overlap"});
  reset();
  reads.a2 = arena.data();
  expect_refused(forward(o, arena.data() + 3 * 17 * 8 - 1), IOATTN_INVALID_ARGUMENT,
                 {"A2", "LSE", "overlap"});
  reset();
  expect_refused(forward(arena.data(), arena.data() + 3 * 31 * 11 - 1), IOATTN_INVALID_ARGUMENT,
                 {"O", "LSE", "overlap"});
  reads.x = arena.data() + 3 * 31 * 11 - 1;
  expect_refused(forward(arena.data(), lse), IOATTN_INVALID_ARGUMENT, {"X", "O", "overlap"});
  reads.x = arena.data() + 3 * 31 - 1;
  expect_refused(forward(o, arena.data()), IOATTN_INVALID_ARGUMENT, {"X", "LSE", "overlap"});
  reads.x = arena.data() + 3 * 31;
  EXPECT_EQ(forward(o, arena.data()), IOATTN_OK) << ioattn_last_error();
}

// ---- ioattn.hpp

TEST(CppLayer, HasTheOptionsOfTheProblem) {
  BatchCall<double> call({entries[0], 3, 0.25, {IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 5, 1}}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  call.expect_forward();
  call.expect_backward();
  const auto expected = call.outputs();

  ioattn::Layer<double> layer;
  layer.a1 = {call.a1.data(), 19, 9};
  layer.a2 = {call.a2.data(), 27, 9};
  layer.a3 = {call.a3.data(), 27, 9};
  layer.x = {call.x.data(), 9, 9};
  layer.y = {call.y.data(), 9, 6};
  layer.scale = 0.25;
  layer.mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  layer.window_left = 5;
  layer.window_right = 1;
  layer.batch = 3;
  ioattn::LayerGradients<double> gradients;
  gradients.dx = {call.out[0].data(), 9, 9};
  gradients.dy = {call.out[1].data(), 9, 6};
  gradients.da1 = {call.out[2].data(), 19, 9};
  gradients.da2 = {call.out[3].data(), 27, 9};
  gradients.da3 = {call.out[4].data(), 27, 9};
  const ioattn::Matrix<double> o = {call.o.data(), 19, 6};
  const ioattn::Matrix<const double> o_read = {call.o.data(), 19, 6},
                                     d_o = {call.d_o.data(), 19, 6};
  call.reset();
  ioattn::forward<double>(layer, o, call.lse.data());
  ioattn::backward<double>(layer, d_o, o_read, call.lse.data(), gradients);
  EXPECT_TRUE(same_bits(call.outputs(), expected));

  call.reset();
  const auto forward = ioattn::LayerPlan<double>::forward(layer);
  const auto backward = ioattn::LayerPlan<double>::backward(layer, gradients);
  std::vector<unsigned char> workspace(
      std::max(forward.workspace_size(), backward.workspace_size()));
  forward.execute_forward(layer, o, call.lse.data(), workspace.data(), workspace.size());
  backward.execute_backward(layer, d_o, o_read, call.lse.data(), gradients, workspace.data(),
                            workspace.size());
  EXPECT_TRUE(same_bits(call.outputs(), expected));
  EXPECT_NE(forward.describe().find(",keys3:9,b3,s0.25\""), std::string::npos)
      << forward.describe();

  layer.batch = 2;
  EXPECT_THROW(forward.execute_forward(layer, o, call.lse.data()), ioattn::Error);
  layer.window_left = -2;
  EXPECT_THROW(ioattn::forward<double>(layer, o, call.lse.data()), ioattn::Error);
}

}  // namespace
}  // namespace ioattn_test
