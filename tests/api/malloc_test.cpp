// Libraries below ioattn (hwloc, the C++ runtime) call malloc. It fails at every place in turn: no
// call crashes, all say so or give right results, and the next call is right. One thread: OpenMP
// runtimes end the process when malloc fails.

#include <dlfcn.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/failing_allocations.hpp"
#include "api/layer_call.hpp"
#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.hpp"
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

  Malloc() {
    std::string pattern = testing::TempDir() + "mallocXXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~Malloc() override {
    unsetenv("IOATTN_WISDOM");
    std::filesystem::remove_all(directory_);
  }
  std::string path(const std::string& name = "wisdom.json") const {
    return directory_ + "/" + name;
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }

 private:
  std::string directory_;
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

// Each of the call's allocations in turn; returns how many there are.
template <class Call, class Check>
long fail_each(Failing how, const Call& call, const Check& check) {
  for (long nth = 1;; ++nth) {
    const std::string trace = "malloc " + std::to_string(nth);
    SCOPED_TRACE(trace);
    ioattn_status status = IOATTN_INTERNAL;
    const bool fired = call_with_failure(nth, how, [&] { status = call(); });
    EXPECT_TRUE(status == IOATTN_OK || (fired && status == IOATTN_OUT_OF_MEMORY))
        << ioattn_last_error();
    check(status);
    if (!fired || testing::Test::HasFailure()) return nth - 1;
  }
}

// Of this machine, with rates, a record and fields of a later version.
std::string some_wisdom() {
  const std::string told = ioattn::wisdom::explain(), key = "\"environment\":{";
  const std::size_t begin = told.find(key) + key.size();
  return R"({"format":"ioattn wisdom","schema":1,"later":[1,{"a":[],"b":null}],"environments":[{)" +
         told.substr(begin, told.find('}', begin) - begin) +
         R"(,"rates":[{"dtype":"f32","multiply_adds_per_second":1e10,"seconds_per_word":1e-9,)"
         R"("seconds_per_inner_word":1e-10,"threads":1,"date":"2026-01-01T00:00:00Z",)"
         R"("later":{"deep":[[]]}}],"records":[{"op":"forward","dtype":"f32","d":8,"dv":8,)"
         R"("log2_n":3,"log2_m":3,"plan":"of a later version, and longer than a short text",)"
         R"("problem":"any","seconds":1,"mad":0,"estimate_seconds":1,"rounds":3,)"
         R"("rigor":"measure","date":"2026-01-01T00:00:00Z","later":{"a":"a"}}]}]})";
}

// Before this process has read wisdom: the machine it may know.
TEST_P(Malloc, FirstCallWithWisdom) {
  setenv("IOATTN_WISDOM", path().c_str(), 1);
  in_new_process([&] {
    write(some_wisdom());
    return false;
  });
  const char* isa = nullptr;
  ASSERT_EQ(ioattn_selected_isa(&isa), IOATTN_OK);
  ioattn_machine_threads();
  const ioattn_options options = one_thread();
  long nth = 1;
  for (;; ++nth) {
    const std::string trace = "malloc " + std::to_string(nth);
    SCOPED_TRACE(trace);
    const bool failed = in_new_process([&] {
      SdpaCall<float> call({1, 1, 1, 8, 8, 8, 8});
      ioattn_status status = IOATTN_INTERNAL;
      const bool fired =
          call_with_failure(nth, GetParam(), [&] { status = call.forward(&options); });
      EXPECT_TRUE(status == IOATTN_OK || (fired && status == IOATTN_OUT_OF_MEMORY))
          << ioattn_last_error();
      EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
      call.expect_forward();
      const std::string told = ioattn::wisdom::explain();
      EXPECT_NE(told.find(R"("records":1,"code":"ok")"), std::string::npos) << told;
      return fired;
    });
    if (!failed || HasFailure()) break;
  }
  EXPECT_GT(nth, 50);
}

TEST_P(Malloc, WisdomAsText) {
  in_new_process([&] {
    const std::string text = some_wisdom();
    const auto import = [&] { return ioattn_wisdom_import_text(text.c_str()); };
    EXPECT_GT(fail_each(GetParam(), import, [](ioattn_status) {}), 50);
    const std::string expected = ioattn::wisdom::export_text();
    std::vector<char> buffer(expected.size() + 1);
    std::size_t needed = 0;
    const auto export_text = [&] {
      return ioattn_wisdom_export_text(buffer.data(), buffer.size(), &needed);
    };
    const auto check = [&](ioattn_status status) {
      EXPECT_TRUE(status != IOATTN_OK || buffer.data() == expected);
      buffer[0] = '\0';
    };
    EXPECT_GT(fail_each(GetParam(), export_text, check), 50);
    return false;
  });
}

// What is reported to have failed has not replaced the file, nor the link to it.
TEST_P(Malloc, WisdomInFiles) {
  const std::string link = path("link.json");
  std::filesystem::create_symlink(path(), link);
  in_new_process([&] {
    EXPECT_EQ(ioattn_wisdom_import_text(some_wisdom().c_str()), IOATTN_OK) << ioattn_last_error();
    const std::string before = R"({"format":"ioattn wisdom","schema":1,"environments":[]})";
    const std::string after = ioattn::wisdom::export_text();
    write(before);
    const auto export_file = [&] { return ioattn_wisdom_export_file(link.c_str()); };
    const auto check = [&](ioattn_status status) {
      EXPECT_EQ(read(), status == IOATTN_OK ? after : before);
      EXPECT_TRUE(std::filesystem::is_symlink(link));
      EXPECT_FALSE(std::filesystem::exists(path("wisdom.json.new")));
      write(before);
    };
    EXPECT_GT(fail_each(GetParam(), export_file, check), 50);
    return false;
  });
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
