#pragma once

#include <array>
#include <cstddef>

// Numbers of threads that must not change a bit: 1 first, powers of two and others, more than most
// machines that run the tests have CPUs for.
namespace ioattn_test {

inline constexpr int thread_counts[] = {1, 2, 3, 4, 7, 8, 16};

// Three of them besides 1: all, in two rounds. For sweeps of so many rounds that all of them in
// each would take too long.
template <class Round>
constexpr std::array<int, 3> some_thread_counts(Round round) {
  const std::size_t first = 1 + static_cast<std::size_t>(round) % 2;
  return {thread_counts[first], thread_counts[first + 2], thread_counts[first + 4]};
}

}  // namespace ioattn_test
