// A program that opens the library, computes with several threads and closes it again goes on: the
// threads of OpenMP's runtime wait in code that has to stay.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "ioattn/ioattn.h"

namespace ioattn_test {
namespace {

template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

TEST(Unload, LeavesTheProgramAlive) {
  constexpr std::int64_t n = 512, d = 64;
  const std::vector<float> in(n * d, 0.5f);
  ioattn_sdpa_problem problem = {};
  problem.struct_size = sizeof problem;
  problem.batch = problem.heads = problem.kv_heads = 1;
  problem.n = problem.m = n;
  problem.d = problem.dv = d;
  problem.dtype = IOATTN_F32;
  problem.q = problem.k = problem.v = in.data();
  for (int round = 0; round < 3; ++round) {
    void* const library = dlopen(IOATTN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* const forward = function<decltype(ioattn_sdpa_forward)>(library, "ioattn_sdpa_forward");
    ASSERT_NE(forward, nullptr);
    std::vector<float> o(n * d);
    ASSERT_EQ(forward(&problem, nullptr, o.data(), nullptr, nullptr, nullptr), IOATTN_OK);
    EXPECT_EQ(o[0], 0.5f);
    ASSERT_EQ(dlclose(library), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace
}  // namespace ioattn_test
