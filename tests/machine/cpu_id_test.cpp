#include "machine/cpu_id.hpp"

#include <gtest/gtest.h>

#include "machine/machine.hpp"

namespace ioattn::machine {
namespace {

TEST(CpuIdTest, OfAMachine) {
  Machine machine;
  machine.vendor = "AuthenticAMD";
  machine.family = 25;
  machine.model_number = 33;
  const CpuId id = cpu_id(machine);
  EXPECT_EQ(id.vendor, "AuthenticAMD");
  EXPECT_EQ(id.family, 25);
  EXPECT_EQ(id.model, 33);
}

TEST(CpuIdTest, Patterns) {
  CpuPattern pattern;
  ASSERT_TRUE(parse_cpu_pattern("AuthenticAMD 0x19 0x00-0x0f 33", &pattern));
  EXPECT_TRUE(matches({"AuthenticAMD", 25, 0}, pattern));
  EXPECT_TRUE(matches({"AuthenticAMD", 25, 15}, pattern));
  EXPECT_TRUE(matches({"AuthenticAMD", 25, 33}, pattern));
  EXPECT_FALSE(matches({"AuthenticAMD", 25, 16}, pattern));
  EXPECT_FALSE(matches({"AuthenticAMD", 25, 32}, pattern));
  EXPECT_FALSE(matches({"AuthenticAMD", 26, 0}, pattern));
  EXPECT_FALSE(matches({"GenuineIntel", 25, 0}, pattern));
  ASSERT_TRUE(parse_cpu_pattern("0x41 8", &pattern));
  EXPECT_TRUE(matches({"0x41", 8, 12345}, pattern));
  for (const char* wrong : {"", "Vendor", "Vendor x", "Vendor 6 -", "Vendor 6 1-", "Vendor 6 -1",
                            "Vendor 6 3-2", "Vendor 6 0x", "Vendor 6 1-2-3", "Vendor -6"}) {
    EXPECT_FALSE(parse_cpu_pattern(wrong, &pattern)) << wrong;
  }
  EXPECT_TRUE(matches({"0x41", 8, 1}, pattern)) << "changed on failure";
}

}  // namespace
}  // namespace ioattn::machine
