#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace ioattn_test {

// Runs the body in a child. A child that hangs is killed by its alarm.
inline void expect_child_succeeds(const std::function<bool()>& body) {
  constexpr unsigned watchdog_seconds = 10;
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(watchdog_seconds);
    _exit(body() && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status)
                                    << (WTERMSIG(status) == SIGALRM ? ": it hung" : "");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace ioattn_test
