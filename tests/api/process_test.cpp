// What a process does with its threads: it pins, binds and cancels them.

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "ioattn/ioattn.h"
#include "machine/cgroup.hpp"
#include "machine/machine.hpp"

namespace ioattn_test {
namespace {

cpu_set_t affinity_of_caller() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

void pin_to_one_cpu() {
  const cpu_set_t allowed = affinity_of_caller();
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

int32_t usable(int cpus) {
  return ioattn::machine::usable_threads(cpus, ioattn::machine::this_machine().cpu_quota);
}

// The first to ask is a thread with one CPU.
TEST(Process, ThreadsAreThoseOfAffinityAtTheCall) {
  if (std::getenv("OMP_PROC_BIND") != nullptr) GTEST_SKIP() << "they are bound";
  std::thread([] {
    pin_to_one_cpu();
    EXPECT_EQ(ioattn_machine_threads(), 1);
  }).join();
  const cpu_set_t all = affinity_of_caller();
  EXPECT_EQ(ioattn_machine_threads(), usable(CPU_COUNT(&all)));
}

// Where OpenMP's runtime binds the main thread to one CPU before anything else runs, in a process
// of its own.
TEST(Process, ThreadsAreThoseOfAllPlacesWhereTheyAreBound) {
  const char* const cpus = std::getenv("IOATTN_TEST_CPUS");
  if (cpus != nullptr) {
    EXPECT_EQ(ioattn_machine_threads(), usable(std::atoi(cpus)));
    EXPECT_EQ(ioattn::machine::this_machine().allowed_cpus, std::atoi(cpus));
    return;
  }
  if (std::getenv("OMP_PROC_BIND") != nullptr) GTEST_SKIP() << "they are bound";
  const cpu_set_t all = affinity_of_caller();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "OMP_PROC_BIND=true IOATTN_TEST_CPUS=" + std::to_string(CPU_COUNT(&all)) + " '" + self +
      "' --gtest_brief=1 --gtest_filter=Process.ThreadsAreThoseOfAllPlaces*";
  EXPECT_EQ(std::system(command.c_str()), 0);
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
