#include "machine/cpu_id.hpp"

#include "machine/fake_system.hpp"

namespace ioattn::machine {
namespace {

class CpuIdTest : public FakeSystem {
 protected:
  CpuId read(const std::string& cpuinfo) {
    write("proc/cpuinfo", cpuinfo);
    return read_cpu_id(options_.proc_root);
  }
};

TEST_F(CpuIdTest, OfX86) {
  const CpuId cpu = read(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
      "model name\t: A CPU\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\nmodel\t\t: 1\n");
  EXPECT_EQ(cpu.vendor, "GenuineIntel");
  EXPECT_EQ(cpu.family, 6);
  EXPECT_EQ(cpu.model, 0x8f);
}

TEST_F(CpuIdTest, OfArm) {
  const CpuId cpu = read(
      "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
      "CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n");
  EXPECT_EQ(cpu.vendor, "0x41");
  EXPECT_EQ(cpu.family, 8);
  EXPECT_EQ(cpu.model, 0xd0c);
}

TEST_F(CpuIdTest, IsEmptyWhereNothingIsSaid) {
  EXPECT_EQ(read_cpu_id(options_.proc_root + "/nowhere").vendor, "");
  const CpuId cpu = read("model\t: many\ncpu family\t: 99999999999\n");
  EXPECT_EQ(cpu.vendor, "");
  EXPECT_EQ(cpu.family, 0);
  EXPECT_EQ(cpu.model, 0);
}

TEST_F(CpuIdTest, Patterns) {
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
