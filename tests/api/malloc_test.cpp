// Libraries below ioattn (hwloc, the C++ runtime) call malloc. It fails at every place in turn: no
// call crashes, all say so or give right results, and the next call is right. One thread: OpenMP
// runtimes end the process when malloc fails.

#include <dlfcn.h>

#include <cerrno>

#include "api/failing_allocations.hpp"
#include "api/layer_call.hpp"
#include "reference/sanitizer.hpp"

#if IOATTN_SANITIZER_OWNS_MALLOC || !defined(__GLIBC__)
#define IOATTN_OWN_MALLOC 0
#else
#define IOATTN_OWN_MALLOC 1
#endif

// The C library's names, and not its names of parameters.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name)
#if IOATTN_OWN_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

static void* unless_it_fails(void* (*allocate)(std::size_t, std::size_t), std::size_t a,
                             std::size_t b) {
  if (ioattn_test::this_allocation_fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocate(a, b);
}

static int without_failures(const char* function, void* topology) {
  const bool armed = ioattn_test::allocation_failure.armed.exchange(false);
  const auto original = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, function));
  const int result = original(topology);
  ioattn_test::allocation_failure.armed = armed;
  return result;
}

void* malloc(std::size_t bytes) {
  return unless_it_fails([](std::size_t n, std::size_t) { return __libc_malloc(n); }, bytes, 0);
}
void* calloc(std::size_t count, std::size_t bytes) {
  return unless_it_fails(__libc_calloc, count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  if (ioattn_test::this_allocation_fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return unless_it_fails(__libc_memalign, alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return unless_it_fails(__libc_memalign, alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  void* result = unless_it_fails(__libc_memalign, alignment, bytes);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

// These come before hwloc's own in the search for symbols.
int hwloc_topology_init(void* topology) {
  return without_failures("hwloc_topology_init", topology);
}
int hwloc_topology_load(void* topology) {
  return without_failures("hwloc_topology_load", topology);
}
}
#endif
// NOLINTEND(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name)

namespace ioattn_test {
namespace {

ioattn_options one_thread() {
  ioattn_options options = default_options();
  options.threads = 1;
  return options;
}

class Malloc : public testing::TestWithParam<Failing> {
 protected:
  void SetUp() override {
#if !IOATTN_OWN_MALLOC
    GTEST_SKIP() << "malloc belongs to the sanitizer or to another C library";
#endif
  }
};

TEST_P(Malloc, FindingTheMachine) {
  long nth = 1;
  for (;; ++nth) {
    const std::string trace = "malloc " + std::to_string(nth);
    SCOPED_TRACE(trace);
    const bool failed = in_new_process([&] {
      ioattn_cache cache = {};
      cache.struct_size = sizeof cache;
      ioattn_status status = IOATTN_INTERNAL;
      const bool fired =
          call_with_failure(nth, GetParam(), [&] { status = ioattn_machine_cache(2, &cache); });
      EXPECT_TRUE(status == IOATTN_OK || (fired && status == IOATTN_OUT_OF_MEMORY))
          << ioattn_last_error();
      EXPECT_EQ(cache.size_bytes > 0, status == IOATTN_OK);
      EXPECT_EQ(ioattn_machine_cache(2, &cache), IOATTN_OK) << ioattn_last_error();
      // hwloc may have given up, then sysfs or an assumption answers, and says so.
      EXPECT_GT(cache.size_bytes, 0);
      EXPECT_STRNE(cache.source, "unknown");
      EXPECT_GE(ioattn_machine_threads(), 1);
      LayerCall<float> call({20, 30, 8, 8, Ties::none}, 0);
      const ioattn_options options = one_thread();
      EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_forward();
      return fired;
    });
    if (!failed || HasFailure()) break;
  }
  EXPECT_GT(nth, 50);
}

TEST_P(Malloc, Passes) {
  for (const char* schedule : backward_schedules) {
    SCOPED_TRACE(schedule);
    LayerCall<float> call({40, 30, 8, 5, Ties::none}, 1);
    const ioattn_options first = one_thread();
    ioattn_options options = one_thread();
    options.schedule = schedule;
    ASSERT_EQ(call.forward(&first), IOATTN_OK);
    long nth = 1;
    for (;; ++nth) {
      call.dx.fill_with_pattern();
      ioattn_status status = IOATTN_INTERNAL;
      const bool fired =
          call_with_failure(nth, GetParam(), [&] { status = call.whole_backward(&options); });
      if (fired) {
        ASSERT_EQ(status, IOATTN_OUT_OF_MEMORY) << "malloc " << nth;
        EXPECT_STRNE(ioattn_last_error(), "");
        EXPECT_TRUE(call.dx.untouched());
      }
      EXPECT_EQ(call.whole_backward(&options), IOATTN_OK);
      call.expect_backward();
      if (!fired) break;
    }
    EXPECT_GT(nth, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Fails, Malloc, testing::Values(Failing::once, Failing::forever),
                         [](const auto& test) {
                           return test.param == Failing::once ? "Once" : "Forever";
                         });

}  // namespace
}  // namespace ioattn_test
