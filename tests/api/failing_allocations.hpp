#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>

// Makes the Nth allocation fail. A program that uses this replaces an allocator and asks
// this_allocation_fails() in it.
namespace ioattn_test {

enum class Failing { once, forever, by_another_exception };

struct AllocationFailure {
  std::atomic<long> left{0};  // allocations until the first that fails; <= 0 once it has
  std::atomic<bool> armed{false};
  Failing how = Failing::once;
};
inline AllocationFailure allocation_failure;

inline bool this_allocation_fails() {
  if (!allocation_failure.armed.load(std::memory_order_acquire)) return false;
  const long left = --allocation_failure.left;
  return left == 0 || (left < 0 && allocation_failure.how == Failing::forever);
}

// Calls with the Nth allocation failing; returns whether there was an Nth.
template <class Call>
bool call_with_failure(long nth, Failing how, Call call) {
  allocation_failure.how = how;
  allocation_failure.left = nth;
  allocation_failure.armed.store(true, std::memory_order_release);
  call();
  allocation_failure.armed = false;
  return allocation_failure.left <= 0;
}

// Runs the body in a child process, where the library has not been called yet; returns what the
// body returned. Its failures, and its death, are failures here.
inline bool in_new_process(const std::function<bool()>& body) {
  constexpr int returned_false = 0, returned_true = 2;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool result = body();
    std::exit(testing::Test::HasFailure() ? 1 : result ? returned_true : returned_false);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  EXPECT_TRUE(code == returned_false || code == returned_true) << "exit status " << code;
  return code == returned_true;
}

}  // namespace ioattn_test
