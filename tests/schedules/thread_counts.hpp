#pragma once

// Numbers of threads that must not change a bit: 1 first, powers of two and others, more than most
// machines that run the tests have CPUs for.
namespace ioattn_test {

inline constexpr int thread_counts[] = {1, 2, 3, 4, 7, 8, 16};

}  // namespace ioattn_test
