// What a process does with its threads: it pins, binds and cancels them.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "ioattn/ioattn.h"
#include "machine/cgroup.hpp"
#include "machine/machine.hpp"

namespace ioattn_test {
namespace {

cpu_set_t affinity_of(pid_t process) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(process, sizeof cpus, &cpus), 0);
  return cpus;
}

void pin_to_one_cpu() {
  const cpu_set_t allowed = affinity_of(0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

// The first to ask is a thread with one CPU, and so is, where this test is run with OMP_PROC_BIND,
// the main thread: what started this process has all of them.
TEST(Process, ThreadsAreThoseOfAffinityAtTheCall) {
  const bool is_bound = std::getenv("OMP_PROC_BIND") != nullptr;
  std::thread([&] {
    pin_to_one_cpu();
    const int32_t threads = ioattn_machine_threads();
    if (!is_bound) {
      EXPECT_EQ(threads, 1);
    }
  }).join();
  const cpu_set_t all = affinity_of(getppid());
  EXPECT_EQ(
      ioattn_machine_threads(),
      ioattn::machine::usable_threads(CPU_COUNT(&all), ioattn::machine::this_machine().cpu_quota));
}

struct Cancelled {
  int32_t threads = 0;
  bool went_on = false;
};

void* cancel_itself_and_call(void* argument) {
  auto* const seen = static_cast<Cancelled*>(argument);
  pthread_cancel(pthread_self());
  seen->threads = ioattn_machine_threads();
  size_t needed = 0;
  seen->went_on = ioattn_wisdom_export_text(nullptr, 0, &needed) == IOATTN_OK && needed > 0;
  pthread_testcancel();
  return nullptr;
}

// Unwinding through a function that does not throw would end the process.
TEST(Process, ACancelledThreadEndsBehindTheCall) {
  Cancelled seen;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, cancel_itself_and_call, &seen), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_GE(seen.threads, 1);
  EXPECT_TRUE(seen.went_on);
}

}  // namespace
}  // namespace ioattn_test
