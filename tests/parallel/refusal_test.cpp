// When the system has no threads left, OpenMP runtimes end the process; run() notices before and
// computes alone. The linker passes the library's calls of pthread_create through here.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>

#include "parallel/parallel.hpp"
#include "reference/sanitizer.hpp"

namespace {
std::atomic<int> threads_left{std::numeric_limits<int>::max()};
std::atomic<int> refused{0};
std::atomic<std::size_t> stack_asked{0};  // 0: the default
}  // namespace

extern "C" {  // NOLINTBEGIN(bugprone-reserved-identifier): the linker chose the names
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument) {
  std::size_t stack = 0;
  if (attributes != nullptr) pthread_attr_getstacksize(attributes, &stack);
  stack_asked = stack;
  if (threads_left.fetch_sub(1) <= 0) {
    ++refused;
    return EAGAIN;
  }
  return __real_pthread_create(thread, attributes, start, argument);
}
}  // NOLINTEND(bugprone-reserved-identifier)

namespace ioattn::parallel {
namespace {

struct Calls {
  int count = 0;
  int on_worker_0 = 0;
  bool on_caller = true;
};

// A thread of its own has proved nothing yet about the threads it can have.
Calls calls_from_new_thread(int threads, int allowance) {
  Calls calls;
  std::thread caller([&] {
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<int> count{0}, on_worker_0{0};
    std::atomic<bool> on_caller{true};
    auto body = [&](int worker) {
      ++count;
      on_worker_0 += worker == 0;
      if (std::this_thread::get_id() != here) on_caller = false;
    };
    threads_left = allowance;
    run(threads, body);
    threads_left = std::numeric_limits<int>::max();
    calls = {count, on_worker_0, on_caller};
  });
  caller.join();
  return calls;
}

TEST(Refusal, OfAnyThreadMakesTheRunSerial) {
  for (const int threads : {2, 3, 8}) {
    for (int allowance = 0; allowance < threads - 1; ++allowance) {
      refused = 0;
      const Calls calls = calls_from_new_thread(threads, allowance);
      EXPECT_EQ(refused, 1) << "the probe did not ask, or asked on after a refusal";
      EXPECT_EQ(calls.count, 1) << threads << " threads, " << allowance << " allowed";
      EXPECT_EQ(calls.on_worker_0, 1);
      EXPECT_TRUE(calls.on_caller);
    }
  }
}

TEST(Refusal, EndsWhenThereAreThreadsAgain) {
  EXPECT_EQ(calls_from_new_thread(3, 0).count, 1);
  refused = 0;
  EXPECT_EQ(calls_from_new_thread(3, 2).count, 3);  // exactly as many as needed
  EXPECT_EQ(refused, 0);
}

// A child has none of the threads that were proved.
TEST(Refusal, OfAChildIsNoticed) {
  if (IOATTN_SANITIZER_OWNS_MALLOC) GTEST_SKIP() << "the sanitizer takes no such fork";
  std::atomic<int> calls{0};
  auto body = [&](int) { ++calls; };
  run(3, body);
  ASSERT_EQ(calls, 3);
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(10);
    threads_left = 0;
    calls = 0;
    run(3, body);
    _exit(calls == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// OpenMP's threads have stacks of that size, which may be what the system lacks.
TEST(Refusal, IsOfStacksLikeThoseOfTheRuntime) {
  pthread_attr_t attributes;
  std::size_t otherwise = 0;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_getstacksize(&attributes, &otherwise), 0);
  pthread_attr_destroy(&attributes);
  const struct {
    const char* text;
    std::size_t bytes;
  } sizes[] = {{"3M", 3u << 20},       {"2048", 2u << 20},  {"2048 k", 2u << 20},
               {"1048576B", 1u << 20}, {"1 G", 1u << 30},   {"1", otherwise},
               {"", otherwise},        {"much", otherwise}, {"99999999999G", otherwise}};
  for (const auto& [text, bytes] : sizes) {
    setenv("OMP_STACKSIZE", text, 1);
    calls_from_new_thread(2, 0);  // refused: the runtime makes none
    EXPECT_EQ(stack_asked, bytes) << text;
  }
  setenv("OMP_STACKSIZE", "much", 1);  // libgomp takes the other one then
  setenv("GOMP_STACKSIZE", "5M", 1);
  calls_from_new_thread(2, 0);
  EXPECT_EQ(stack_asked, 5u << 20);
  unsetenv("OMP_STACKSIZE");
  unsetenv("GOMP_STACKSIZE");
}

TEST(Refusal, DoesNotTouchWhatWasProved) {
  std::thread caller([] {
    std::atomic<int> calls{0};
    auto body = [&](int) { ++calls; };
    run(3, body);
    EXPECT_EQ(calls, 3);
    threads_left = 0;
    calls = 0;
    run(2, body);  // the pool of three is there
    EXPECT_EQ(calls, 2);
    calls = 0;
    run(3, body);  // libgomp has ended what the two left out
    EXPECT_EQ(calls, 1);
    calls = 0;
    run(5, body);  // this needs a new proof
    EXPECT_EQ(calls, 1);
    threads_left = std::numeric_limits<int>::max();
    calls = 0;
    run(5, body);
    EXPECT_EQ(calls, 5);
  });
  caller.join();
}

}  // namespace
}  // namespace ioattn::parallel
