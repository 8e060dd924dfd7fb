// Every allocation of every C function fails once, alone and with all after it: the call says so
// and touches no output, nothing leaks, and the next call is right. After SQLite's and oneDNN's
// tests.

#include <cstring>
#include <new>
#include <thread>

#include "api/batch_call.hpp"
#include "api/failing_allocations.hpp"
#include "api/planning/plan_cache.hpp"
#include "api/sdpa_call.hpp"
#include "machine/machine.hpp"

namespace {

std::atomic<long> alive{0};

struct NotBadAlloc {};

void* allocate(std::size_t bytes, std::size_t alignment, bool may_throw) {
  if (ioattn_test::this_allocation_fails()) {
    if (!may_throw) return nullptr;
    if (ioattn_test::allocation_failure.how == ioattn_test::Failing::by_another_exception)
      throw NotBadAlloc();
    throw std::bad_alloc();
  }
  void* memory = nullptr;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(bytes);
  } else if (posix_memalign(&memory, alignment, bytes) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr && may_throw) throw std::bad_alloc();
  if (memory != nullptr) ++alive;
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  --alive;
  std::free(memory);
}

std::size_t number(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

using Size = std::size_t;
using Align = std::align_val_t;
using NoThrow = const std::nothrow_t&;
void* operator new(Size n) { return allocate(n, 1, true); }
void* operator new[](Size n) { return allocate(n, 1, true); }
void* operator new(Size n, NoThrow) noexcept { return allocate(n, 1, false); }
void* operator new[](Size n, NoThrow) noexcept { return allocate(n, 1, false); }
void* operator new(Size n, Align a) { return allocate(n, number(a), true); }
void* operator new[](Size n, Align a) { return allocate(n, number(a), true); }
void* operator new(Size n, Align a, NoThrow) noexcept { return allocate(n, number(a), false); }
void* operator new[](Size n, Align a, NoThrow) noexcept { return allocate(n, number(a), false); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, Size) noexcept { release(p); }
void operator delete[](void* p, Size) noexcept { release(p); }
void operator delete(void* p, NoThrow) noexcept { release(p); }
void operator delete[](void* p, NoThrow) noexcept { release(p); }
void operator delete(void* p, Align) noexcept { release(p); }
void operator delete[](void* p, Align) noexcept { release(p); }
void operator delete(void* p, Size, Align) noexcept { release(p); }
void operator delete[](void* p, Size, Align) noexcept { release(p); }
void operator delete(void* p, Align, NoThrow) noexcept { release(p); }
void operator delete[](void* p, Align, NoThrow) noexcept { release(p); }

namespace ioattn_test {
namespace {

using Call = std::function<ioattn_status()>;

// What this process found is what a look without failures finds.
void expect_machine_is_whole() {
  const ioattn::machine::Machine& found = ioattn::machine::this_machine();
  const ioattn::machine::Machine again = ioattn::machine::detect();
  EXPECT_EQ(found.vendor, again.vendor);
  EXPECT_EQ(found.model, again.model);
  EXPECT_EQ(found.isa, again.isa);
  EXPECT_EQ(found.allowed_cpus, again.allowed_cpus);
  EXPECT_EQ(found.cpu_quota, again.cpu_quota);
  EXPECT_EQ(found.quota_source, again.quota_source);
  EXPECT_EQ(found.usable_threads, again.usable_threads);
  EXPECT_EQ(found.notes, again.notes);
  ASSERT_EQ(found.caches.size(), again.caches.size());
  for (std::size_t i = 0; i < again.caches.size(); ++i) {
    EXPECT_EQ(found.caches[i].level, again.caches[i].level);
    EXPECT_EQ(found.caches[i].share_bytes, again.caches[i].share_bytes);
    EXPECT_EQ(found.caches[i].line_bytes, again.caches[i].line_bytes);
    EXPECT_EQ(found.caches[i].source, again.caches[i].source);
  }
}

// The first call of a process finds the machine. Each allocation fails in a process of its own,
// forked from this one, which therefore must not have called yet: these tests come first.
long fail_each_of_first_call(Failing how, const Call& call) {
  for (long nth = 1;; ++nth) {
    const std::string trace = "allocation " + std::to_string(nth) + " of the first call";
    SCOPED_TRACE(trace);
    const bool failed = in_new_process([&] {
      ioattn_status status = IOATTN_INTERNAL;
      const bool fired = call_with_failure(nth, how, [&] { status = call(); });
      EXPECT_EQ(status, fired ? IOATTN_OUT_OF_MEMORY : IOATTN_OK) << ioattn_last_error();
      EXPECT_EQ(call(), IOATTN_OK) << ioattn_last_error();
      expect_machine_is_whole();
      return fired;
    });
    if (!failed || testing::Test::HasFailure()) return nth - 1;
  }
}

TEST(FirstCall, SelectedIsa) {
  const char* name = nullptr;
  const Call call = [&] { return ioattn_selected_isa(&name); };
  EXPECT_GT(fail_each_of_first_call(Failing::once, call), 5);
  EXPECT_GT(fail_each_of_first_call(Failing::forever, call), 5);
}

TEST(FirstCall, MachineCache) {
  const Call call = [] {
    ioattn_cache cache = {};
    cache.struct_size = sizeof cache;
    const ioattn_status status = ioattn_machine_cache(2, &cache);
    EXPECT_EQ(cache.size_bytes > 0, status == IOATTN_OK);
    return status;
  };
  EXPECT_GT(fail_each_of_first_call(Failing::once, call), 5);
}

// These have no status: they answer what is certain, and the next call knows.
TEST(FirstCall, ThreadsAndIsas) {
  for (long nth = 1;; ++nth) {
    const bool failed = in_new_process([&] {
      std::int32_t threads = 0;
      const bool fired =
          call_with_failure(nth, Failing::once, [&] { threads = ioattn_machine_threads(); });
      EXPECT_EQ(threads, fired ? 1 : ioattn_machine_threads());
      expect_machine_is_whole();
      EXPECT_EQ(ioattn_machine_threads(), ioattn::machine::this_machine().usable_threads);
      return fired;
    });
    if (!failed || testing::Test::HasFailure()) break;
  }
  for (long nth = 1;; ++nth) {
    const bool failed = in_new_process([&] {
      std::int32_t available = -1;
      int last = 0;
      while (ioattn_isa(last + 1, nullptr) != nullptr) ++last;
      const bool fired =
          call_with_failure(nth, Failing::once, [&] { ioattn_isa(last, &available); });
      EXPECT_EQ(available, fired ? 0 : 1);
      EXPECT_STREQ(ioattn_isa(last, &available), "scalar");
      EXPECT_EQ(available, 1);
      return fired;
    });
    if (!failed || testing::Test::HasFailure()) break;
  }
}

TEST(FirstCall, Forward) {
  LayerCall<float> layer({20, 30, 8, 8, Ties::none}, 0);
  ioattn_options options = default_options();
  options.threads = 1;  // with more it may do without the memory for them
  const Call call = [&] {
    layer.reset();
    const ioattn_status status = layer.forward(&options);
    EXPECT_EQ(layer.untouched(), status != IOATTN_OK);
    return status;
  };
  EXPECT_GT(fail_each_of_first_call(Failing::once, call), 5);
}

// Calls have kept no plan then: others have taken the room.
void forget_plans() {
  for (int i = 0; i < 100; ++i) {
    ioattn::plan::LayerRequest layer;
    layer.M = -i;
    ioattn::api::layer_plans().keep(layer, std::nullopt, 0, {});
    ioattn::plan::SdpaRequest sdpa;
    sdpa.M = -i;
    ioattn::api::sdpa_plans().keep(sdpa, std::nullopt, 0, {});
  }
}

// Fails allocation after allocation of a call whose process has made such a call before, but has no
// plan for it. Returns how many there are.
long fail_each(Failing how, const Call& call, const std::function<void()>& expect_untouched,
               const std::function<void()>& expect_right) {
  EXPECT_EQ(call(), IOATTN_OK) << ioattn_last_error();
  expect_right();
  for (long nth = 1;; ++nth) {
    const std::string trace = "allocation " + std::to_string(nth);
    SCOPED_TRACE(trace);
    expect_untouched();
    forget_plans();
    const long alive_before = alive;
    ioattn_status status = IOATTN_INTERNAL;
    const bool failed = call_with_failure(nth, how, [&] { status = call(); });
    EXPECT_EQ(alive, alive_before) << "leaked";
    if (!failed) {
      EXPECT_EQ(status, IOATTN_OK);
      expect_right();
      return nth - 1;
    }
    // Some failures are no reason to fail: without threads of its own a call runs in the caller's.
    if (status == IOATTN_OK) {
      expect_right();
    } else {
      EXPECT_EQ(status, IOATTN_OUT_OF_MEMORY) << ioattn_last_error();
      EXPECT_STRNE(ioattn_last_error(), "");
      expect_untouched();
    }
    EXPECT_EQ(call(), IOATTN_OK) << ioattn_last_error();
    expect_right();
    if (testing::Test::HasFailure()) return nth;
  }
}

struct Pass {
  const char* name;
  std::function<ioattn_status(LayerCall<double>*, const ioattn_options*)> run;
  bool is_forward;
};
const Pass passes[] = {
    {"forward", [](auto* call, auto* options) { return call->forward(options); }, true},
    {"backward", [](auto* call, auto* options) { return call->backward(options); }, false},
    {"whole backward", [](auto* call, auto* options) { return call->whole_backward(options); },
     false}};

TEST(Allocations, EveryPassOfEverySchedule) {
  long total = 0;
  for (const char* schedule : and_auto(backward_schedules)) {
    for (const Pass& pass : passes) {
      if (pass.is_forward && !has_forward_pass(schedule)) continue;
      for (const Failing how : {Failing::once, Failing::forever}) {
        const std::string trace = std::string(schedule) + ' ' + pass.name;
        SCOPED_TRACE(trace);
        LayerCall<double> call({60, 40, 12, 5, Ties::none}, 1);
        EXPECT_EQ(call.forward(), IOATTN_OK);
        ioattn_options options = with_schedule(schedule);
        options.threads = 1;
        total += fail_each(
            how, [&] { return pass.run(&call, &options); },
            [&] { EXPECT_TRUE(call.dx.untouched() && (!pass.is_forward || call.untouched())); },
            [&] {
              if (pass.is_forward) {
                call.expect_forward();
                call.reset();
              } else {
                call.expect_backward();
                call.dx.fill_with_pattern();
              }
            });
      }
    }
  }
  EXPECT_GT(total, 40);
}

// A batch allocates all it needs before the first entry touches an output.
TEST(Allocations, BatchesWithAMaskAndAScale) {
  long total = 0;
  for (const MaskCase& mask : {mask_cases[0], mask_cases[2]}) {
    for (const double scale : {1.0, 0.5}) {
      for (const bool all : {false, true}) {
        BatchCall<double> call({{20, 24, 6, 5, Ties::keys_values}, 3, scale, mask}, 1);
        call.want(all);
        ioattn_options options = default_options();
        options.threads = 1;
        for (const Failing how : {Failing::once, Failing::forever}) {
          SCOPED_TRACE(name_of(call.shape));
          total += fail_each(
              how, [&] { return call.forward(&options); }, [&] { EXPECT_TRUE(call.untouched()); },
              [&] {
                call.expect_forward();
                call.reset();
              });
          ASSERT_EQ(call.forward(&options), IOATTN_OK);
          for (const bool whole : {false, true}) {
            total += fail_each(
                how,
                [&] { return whole ? call.whole_backward(&options) : call.backward(&options); },
                [&] { EXPECT_TRUE(call.gradients_untouched()); },
                [&] {
                  call.expect_backward();
                  call.reset_gradients();
                });
          }
          call.reset();
        }
      }
    }
  }
  EXPECT_GT(total, 50);
}

// Several gradients, with and without O and LSE, and with scratch matrices besides.
TEST(Allocations, SetsOfGradients) {
  LayerCall<double> call({60, 40, 12, 5, Ties::keys_values}, 1);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ioattn_options options = default_options();
  options.threads = 1;
  Strided<double> dy(12, 5, 1), da2(40, 12, 1), da(40, 12, 1), dw(12, 3, 1);
  const Strided<double> w(reference::random_matrix(12, 3, 1), 0);
  ioattn_layer_gradients gradients = {};
  gradients.struct_size = sizeof gradients;
  gradients.dy = dy.data();
  gradients.dy_stride = dy.stride();
  gradients.da2 = da2.data();
  gradients.da2_stride = da2.stride();
  gradients.da = da.data();
  gradients.da_stride = da.stride();
  gradients.dw_q = dw.data();
  gradients.dw_q_stride = dw.stride();
  gradients.w_k = w.data();
  gradients.dk = 3;
  const auto outputs = [&] {
    std::vector<double> all;
    for (const Strided<double>* matrix : {&dy, &da2, &da, &dw}) {
      const std::vector<double> dense = matrix->dense();
      all.insert(all.end(), dense.begin(), dense.end());
    }
    return all;
  };
  std::vector<double> right;
  for (const bool whole : {false, true}) {
    for (const Failing how : {Failing::once, Failing::forever}) {
      right.clear();
      const long count = fail_each(
          how,
          [&] {
            return ioattn_layer_backward(&call.problem, &options, call.d_o.data(),
                                         call.d_o.stride(), whole ? nullptr : call.o.data(),
                                         whole ? 0 : call.o.stride(),
                                         whole ? nullptr : call.lse.data(), &gradients);
          },
          [&] {
            EXPECT_TRUE(dy.untouched() && da2.untouched() && da.untouched() && dw.untouched());
          },
          [&] {
            if (right.empty()) right = outputs();
            EXPECT_TRUE(same_bits(right, outputs()));
            for (Strided<double>* matrix : {&dy, &da2, &da, &dw}) matrix->fill_with_pattern();
          });
      EXPECT_GT(count, 2);
    }
  }
}

// One output that is not wanted needs scratch memory.
TEST(Allocations, UnwantedOutputs) {
  LayerCall<float> call({60, 40, 12, 5, Ties::none}, 0);
  ioattn_options options = default_options();
  options.threads = 1;
  const auto untouched = [&] { EXPECT_TRUE(call.untouched()); };
  const auto only_o = [&] {
    return ioattn_layer_forward(&call.problem, &options, call.o.data(), 0, nullptr);
  };
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const std::vector<float> expected = call.o.dense();
  call.reset();
  const auto right = [&] {
    EXPECT_TRUE(same_bits(call.o.dense(), expected));
    call.reset();
  };
  EXPECT_GE(fail_each(Failing::once, only_o, untouched, right), 2);
  EXPECT_GE(fail_each(Failing::forever, only_o, untouched, right), 2);
}

TEST(Allocations, Sdpa) {
  ioattn_options options = default_options();
  options.threads = 1;
  SdpaCall<double> call({2, 4, 2, 30, 40, 12, 5}, Layout::bshd);
  ASSERT_EQ(call.forward(&options), IOATTN_OK);
  const std::vector<double> o = call.o.dense().values, lse = call.lse.dense().values;
  const ioattn_merge_shape shape = {sizeof shape, 1, 8, 30, 5, IOATTN_F64};
  const ioattn_partial parts[] = {{o.data(), lse.data(), {}, {}}, {o.data(), lse.data(), {}, {}}};
  std::vector<double> merged(o.size(), 0.5), merged_lse(lse.size(), 0.5);
  const std::vector<double> before = merged;
  for (const Failing how : {Failing::once, Failing::forever}) {
    call.poison();
    EXPECT_GE(
        fail_each(
            how, [&] { return call.forward(&options); }, [&] { EXPECT_TRUE(call.untouched()); },
            [&] {
              EXPECT_TRUE(same_bits(call.o.dense().values, o));
              EXPECT_TRUE(same_bits(call.lse.dense().values, lse));
              call.poison();
            }),
        1);
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
    std::vector<double> right;
    EXPECT_GE(fail_each(
                  how, [&] { return call.backward(&options); },
                  [&] { EXPECT_TRUE(call.gradients_untouched()); },
                  [&] {
                    if (right.empty()) right = call.values();
                    EXPECT_TRUE(same_bits(call.values(), right));
                    for (auto* gradient : call.gradient_tensors()) gradient->poison();
                  }),
              1);
    EXPECT_GE(fail_each(
                  how,
                  [&] {
                    return ioattn_merge(&shape, &options, parts, 2, merged.data(), nullptr,
                                        merged_lse.data(), nullptr);
                  },
                  [&] { EXPECT_TRUE(same_bits(merged, before)); },
                  [&] {
                    EXPECT_NE(merged[0], 0.5);
                    merged = before;
                  }),
              1);
  }
}

TEST(Allocations, PackedSdpa) {
  ioattn_options options = default_options();
  options.threads = 1;
  const std::int64_t starts[] = {0, 11, 30};
  SdpaCall<double> call({1, 2, 2, 30, 30, 12, 5}, Layout::bshd);
  call.problem.batch = 2;
  call.problem.q_starts = call.problem.k_starts = starts;
  ASSERT_EQ(call.forward(&options), IOATTN_OK);
  ASSERT_EQ(call.backward(&options), IOATTN_OK);
  const std::vector<double> right = call.values();
  for (const Failing how : {Failing::once, Failing::forever}) {
    for (auto* gradient : call.gradient_tensors()) gradient->poison();
    EXPECT_GE(fail_each(
                  how, [&] { return call.backward(&options); },
                  [&] { EXPECT_TRUE(call.gradients_untouched()); },
                  [&] {
                    EXPECT_TRUE(same_bits(call.values(), right));
                    for (auto* gradient : call.gradient_tensors()) gradient->poison();
                  }),
              4);
    call.poison();
    EXPECT_GE(fail_each(
                  how, [&] { return call.forward(&options); },
                  [&] { EXPECT_TRUE(call.untouched()); }, [&] { call.poison(); }),
              4);
    ASSERT_EQ(call.forward(&options), IOATTN_OK);
  }
}

std::size_t gradient_count(SdpaCall<double>* call) {
  std::size_t count = 0;
  for (auto* gradient : call->gradient_tensors()) count += gradient->dense().values.size();
  return count;
}

// Planning, reading a plan's text, and telling text and description, executing.
void check_plans_of(SdpaCall<double>& call) {
  ioattn_options options = default_options();
  options.threads = 1;
  ASSERT_EQ(call.forward(&options), IOATTN_OK);
  ASSERT_EQ(call.backward(&options), IOATTN_OK);
  const std::vector<double> right = call.values();
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    for (const Failing how : {Failing::once, Failing::forever}) {
      ioattn_plan* plan = nullptr;
      const auto none = [&] { EXPECT_EQ(plan, nullptr); };
      const auto destroyed = [&] {
        EXPECT_NE(plan, nullptr);
        ioattn_plan_destroy(plan);
        plan = nullptr;
      };
      // What is made is destroyed within the call, which then leaks nothing.
      std::string text;
      const auto make = [&](const char* from) {
        const ioattn_status status =
            from == nullptr
                ? ioattn_sdpa_plan_create(pass, &call.problem, nullptr, &options, &plan)
                : ioattn_sdpa_plan_parse(pass, &call.problem, nullptr, &options, from, &plan);
        if (status != IOATTN_OK) return status;
        destroyed();
        return status;
      };
      EXPECT_GE(fail_each(
                    how, [&] { return make(nullptr); }, none, none),
                2);

      ASSERT_EQ(ioattn_sdpa_plan_create(pass, &call.problem, nullptr, &options, &plan), IOATTN_OK);
      ioattn_plan* const made = plan;
      plan = nullptr;
      std::vector<char> buffer(8000);
      ASSERT_EQ(ioattn_plan_text(made, buffer.data(), buffer.size(), nullptr), IOATTN_OK);
      text = buffer.data();
      EXPECT_GE(fail_each(
                    how, [&] { return make(text.c_str()); }, none, none),
                2);
      buffer.assign(buffer.size(), 'x');
      const auto written = [&] {
        EXPECT_NE(buffer[0], 'x');
        buffer[0] = 'x';
      };
      const auto unwritten = [&] { EXPECT_EQ(buffer[0], 'x'); };
      for (const auto tell : {ioattn_plan_text, ioattn_plan_describe}) {
        EXPECT_GE(fail_each(
                      how, [&] { return tell(made, buffer.data(), buffer.size(), nullptr); },
                      unwritten, written),
                  1);
      }

      // An execution from the heap, and in a workspace of the caller's.
      std::size_t bytes = 0;
      ASSERT_EQ(ioattn_plan_workspace_size(made, &bytes), IOATTN_OK);
      std::vector<char> workspace(bytes);
      const auto unwanted = [&] {
        for (auto* output : call.gradient_tensors()) output->poison();
        if (pass == IOATTN_FORWARD) call.poison();
      };
      for (void* memory : {static_cast<void*>(nullptr), static_cast<void*>(workspace.data())}) {
        unwanted();
        EXPECT_GE(
            fail_each(
                how,
                [&] {
                  return pass == IOATTN_FORWARD
                             ? ioattn_sdpa_execute_forward(made, &call.problem, call.o.data(),
                                                           call.o.strides().data(), call.lse.data(),
                                                           call.lse.strides().data(), memory, bytes)
                             : ioattn_sdpa_execute_backward(
                                   made, &call.problem, call.d_o.data(), call.d_o.strides().data(),
                                   call.o.data(), call.o.strides().data(), call.lse.data(),
                                   call.lse.strides().data(), &call.gradients, memory, bytes);
                },
                [&] {
                  EXPECT_TRUE(pass == IOATTN_FORWARD ? call.untouched()
                                                     : call.gradients_untouched());
                },
                [&] {
                  const std::vector<double> got = call.values();
                  const std::size_t first =
                      pass == IOATTN_FORWARD ? 0 : got.size() - gradient_count(&call);
                  const std::size_t last =
                      pass == IOATTN_FORWARD ? got.size() - gradient_count(&call) : got.size();
                  EXPECT_TRUE(std::equal(got.begin() + long(first), got.begin() + long(last),
                                         right.begin() + long(first)));
                  unwanted();
                }),
            memory == nullptr ? 1 : 0);
      }
      ioattn_plan_destroy(made);
    }
    ASSERT_EQ(call.forward(&options), IOATTN_OK);  // for the backward pass
  }
}

TEST(Allocations, SdpaPlans) {
  SdpaCall<double> call({2, 4, 2, 30, 40, 12, 5}, Layout::bshd);
  check_plans_of(call);
}

TEST(Allocations, PlansOfPackedSequences) {
  const std::int64_t starts[] = {0, 11, 30};
  SdpaCall<double> call({1, 2, 2, 30, 30, 12, 5}, Layout::bshd);
  call.problem.batch = 2;
  call.problem.q_starts = call.problem.k_starts = starts;
  check_plans_of(call);
}

// A search whose allocations fail somewhere learns nothing or all of it; the next one is right.
TEST(Allocations, Searches) {
  BatchCall<double> layer({{20, 24, 6, 5, Ties::keys_values}, 1, 1, {}}, 0);
  const ioattn_layer_shape shape = layer.planned_shape();
  SdpaCall<double> sdpa({1, 1, 1, 30, 40, 12, 5}, Layout::bshd);
  ioattn_options options = default_options();
  options.threads = 1;
  options.rigor = IOATTN_MEASURE;
  options.time_limit_seconds = 0.01;
  const auto create = [&](bool of_layer, ioattn_plan** plan) {
    return of_layer
               ? ioattn_layer_plan_create(IOATTN_BACKWARD, &shape, nullptr, &options, plan)
               : ioattn_sdpa_plan_create(IOATTN_BACKWARD, &sdpa.problem, nullptr, &options, plan);
  };
  long failed = 0;
  for (const bool of_layer : {false, true}) {
    for (long nth = 1; nth < 4000; nth += 1 + nth / 4) {
      const std::string trace = "allocation " + std::to_string(nth);
      SCOPED_TRACE(trace);
      ASSERT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
      const long alive_before = alive;
      ioattn_plan* plan = nullptr;
      ioattn_status status = IOATTN_INTERNAL;
      call_with_failure(nth, Failing::once, [&] { status = create(of_layer, &plan); });
      EXPECT_TRUE(status == IOATTN_OK || status == IOATTN_OUT_OF_MEMORY) << ioattn_last_error();
      EXPECT_EQ(plan == nullptr, status != IOATTN_OK);
      failed += status == IOATTN_OK ? 0 : 1;
      ioattn_plan_destroy(plan);
      ASSERT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
      EXPECT_EQ(alive, alive_before) << "leaked";
      ASSERT_EQ(create(of_layer, &plan), IOATTN_OK) << ioattn_last_error();
      ioattn_plan_destroy(plan);
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
}

// A caller that has no threads yet and gets no memory for them computes alone.
TEST(Allocations, Threads) {
  LayerCall<float> call({60, 40, 12, 5, Ties::none}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const std::vector<float> expected = call.o.dense();
  int alone = 0;
  for (long nth = 1;; ++nth) {
    bool failed = false;
    call.reset();
    std::thread([&] {
      ioattn_status status = IOATTN_INTERNAL;
      failed = call_with_failure(nth, Failing::once, [&] { status = call.forward(); });
      if (status == IOATTN_OK) {
        EXPECT_TRUE(same_bits(call.o.dense(), expected));
        alone += failed ? 1 : 0;
      } else {
        EXPECT_TRUE(failed);
        EXPECT_EQ(status, IOATTN_OUT_OF_MEMORY);
        EXPECT_TRUE(call.untouched());
      }
    }).join();
    if (!failed || HasFailure()) break;
  }
  EXPECT_EQ(alone, ioattn_machine_threads() > 1 ? 1 : 0);
}

TEST(Allocations, AnotherExceptionIsInternal) {
  LayerCall<float> call({60, 40, 12, 5, Ties::none}, 0);
  ASSERT_EQ(call.forward(), IOATTN_OK);
  ASSERT_EQ(call.backward(), IOATTN_OK);
  call.reset();
  ioattn_status status = IOATTN_OK;
  EXPECT_TRUE(
      call_with_failure(1, Failing::by_another_exception, [&] { status = call.forward(); }));
  EXPECT_EQ(status, IOATTN_INTERNAL);
  EXPECT_STRNE(ioattn_last_error(), "");
  EXPECT_TRUE(call.untouched());
}

TEST(Allocations, ABoundNeedsNone) {
  double words = 0;
  EXPECT_FALSE(call_with_failure(1, Failing::forever, [&] {
    EXPECT_EQ(ioattn_layer_bound(IOATTN_BACKWARD, IOATTN_CLASS_FMA, IOATTN_TIE_NONE, 70, 45, 24, 20,
                                 300, &words, nullptr),
              IOATTN_OK);
  }));
  EXPECT_GT(words, 0);
}

}  // namespace
}  // namespace ioattn_test
