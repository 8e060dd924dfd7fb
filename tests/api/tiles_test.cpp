// What the kernel grants and refuses a process that may multiply by the tiles of AMX: each test is
// a child, as what is granted stays. Without tiles the same has to hold.

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "api/child.hpp"
#include "api/half_call.hpp"
#include "api/isa_variable.hpp"
#include "api/plan_call.hpp"

namespace ioattn_test {
namespace {

using Call = HalfCall<ioattn_bf16>;
constexpr HalfSizes sizes = {2, 2, 1, 130, 90, 40, 24};

// The best instruction set is chosen at the first call of a child.
class TilesOfTheProcess : public IsaVariable {
 protected:
  void SetUp() override {
    IsaVariable::SetUp();
    unsetenv("IOATTN_ISA");
  }
};

std::string selected() {
  const char* name = "";
  EXPECT_EQ(ioattn_selected_isa(&name), IOATTN_OK) << ioattn_last_error();
  return name;
}

bool is_built(const std::string& isa) {
  for (std::int32_t i = 0; ioattn_isa(i, nullptr) != nullptr; ++i)
    if (isa == ioattn_isa(i, nullptr)) return true;
  return false;
}

bool takes_a_stack_of(std::size_t bytes) {
  static std::vector<char> memory(1 << 16);
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = bytes;
  return sigaltstack(&stack, nullptr) == 0;
}

Call computed(int threads) {
  Call call(sizes);
  const ioattn_options options = with_threads(threads);
  EXPECT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
  for (const auto* all : {&call.o, &call.dq, &call.dk, &call.dv})
    for (const ioattn_bf16 x : *all) EXPECT_TRUE(std::isfinite(number(x)));
  return call;
}

void expect_no_tiles(ioattn_status status) {
  const std::string message = ioattn_last_error();
  EXPECT_EQ(status, IOATTN_UNSUPPORTED);
  EXPECT_NE(message.find("avx512_amx is not available "), std::string::npos) << message;
  EXPECT_NE(message.find(" ("), std::string::npos) << "and why: " << message;
}

// Too small for tiles, and stays: the process never gets any.
TEST_F(TilesOfTheProcess, AreNotThoseOfASmallSignalStack) {
  expect_child_succeeds([] {
    constexpr std::size_t too_small = 4096;
    if (!takes_a_stack_of(too_small)) return true;  // nor would the kernel have any of it
    EXPECT_NE(selected(), "avx512_amx");
    computed(2);
    EXPECT_TRUE(takes_a_stack_of(too_small));
    if (!is_built("avx512_amx")) return true;
    const Call call(sizes);
    ioattn_plan* plan = nullptr;
    const char* const of_another = "L2:tile_fused(form=h,c=64,rho=64,w=64) > reg:avx512_amx(8x32)";
    expect_no_tiles(
        ioattn_sdpa_plan_parse(IOATTN_FORWARD, &call.problem, nullptr, nullptr, of_another, &plan));
    setenv("IOATTN_ISA", "avx512_amx", 1);
    const char* name = nullptr;
    expect_no_tiles(ioattn_selected_isa(&name));
    return true;
  });
}

TEST_F(TilesOfTheProcess, AreNotAskedForWhereAnotherIsaIsNamed) {
  expect_child_succeeds([] {
    setenv("IOATTN_ISA", "scalar", 1);
    EXPECT_EQ(selected(), "scalar");
    unsetenv("IOATTN_ISA");
    EXPECT_NE(selected(), "avx512_amx");
    computed(1);
    return true;
  });
}

// Whichever thread calls first, even where others were there before.
TEST_F(TilesOfTheProcess, AreThoseOfAllThreadsAndChildren) {
  expect_child_succeeds([] {
    std::thread([] { selected(); }).join();
    const std::string isa = selected();
    const Call here = computed(1);
    EXPECT_TRUE(computed(2).same_results(here));
    expect_child_succeeds([&] {
      EXPECT_EQ(selected(), isa);
      EXPECT_TRUE(computed(1).same_results(here));
      return computed(2).same_results(here);
    });
    return computed(2).same_results(here);
  });
}

}  // namespace
}  // namespace ioattn_test
