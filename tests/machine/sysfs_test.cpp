#include "fake_system.hpp"
#include "machine/cpu_list.hpp"
#include "machine/text.hpp"

namespace ioattn::machine {
namespace {

constexpr index_t KiB = 1024;

using Sysfs = FakeSystem;

TEST_F(Sysfs, ReadsDataAndUnifiedCaches) {
  write_two_cores();
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 3u);
  expect_cache(machine, 1, 48 * KiB, 2, Source::sysfs);
  expect_cache(machine, 2, 1024 * KiB, 2, Source::sysfs);
  expect_cache(machine, 3, 32768 * KiB, 4, Source::sysfs);  // six share it, four are ours
  EXPECT_EQ(machine.cache(1)->line_bytes, 64);
  EXPECT_EQ(machine.cache(1)->line_source, Source::sysfs);
  EXPECT_EQ(machine.cache(1)->ways, 8);
  EXPECT_EQ(machine.cache(4), nullptr);
  EXPECT_EQ(machine.allowed_cpus, 4);
  EXPECT_FALSE(noted(machine, "assumed"));
}

TEST_F(Sysfs, CountsOnlyAllowedCpusAsSharers) {
  write_two_cores();
  options_.allowed_cpus = {2, 0, 2};
  const Machine machine = found();
  EXPECT_EQ(machine.allowed_cpus, 2);
  expect_cache(machine, 1, 48 * KiB, 1, Source::sysfs);
  expect_cache(machine, 3, 32768 * KiB, 2, Source::sysfs);
}

TEST_F(Sysfs, TakesTheLeastShareWhereCpusDiffer) {
  write_two_cores();
  options_.allowed_cpus = {0, 1, 2, 3, 4};
  write_cache(4, 0, 1, "Data", "32K", "4");      // larger share of a smaller cache
  write_cache(4, 1, 2, "Unified", "256K", "4");  // smaller share
  write_cache(4, 2, 3, "Unified", "32768K", "0-5");
  const Machine machine = found();
  expect_cache(machine, 1, 48 * KiB, 2, Source::sysfs);
  expect_cache(machine, 2, 256 * KiB, 1, Source::sysfs);
  EXPECT_TRUE(noted(machine, "differ in L1"));
  EXPECT_TRUE(noted(machine, "differ in L2"));
  EXPECT_FALSE(noted(machine, "differ in L3"));
}

TEST_F(Sysfs, LeavesOutAnL3ThatSomeCpusLack) {
  write_two_cores();
  options_.allowed_cpus = {0, 1, 4};
  write_cache(4, 0, 1, "Data", "32K", "4");
  const Machine machine = found();
  EXPECT_EQ(machine.cache(3), nullptr);
  EXPECT_TRUE(noted(machine, "no L3"));
  expect_cache(machine, 2, 1024 * KiB, 2, Source::sysfs);
  EXPECT_TRUE(noted(machine, "show no L2"));
}

TEST_F(Sysfs, AssumesAMissingLevelAndSaysSo) {
  options_.allowed_cpus = {0};
  write_cache(0, 0, 1, "Data", "64K", "0");
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 2u);
  expect_cache(machine, 1, 64 * KiB, 1, Source::sysfs);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  EXPECT_TRUE(noted(machine, "L2 is unknown"));
  EXPECT_FALSE(noted(machine, "L1 is unknown"));
}

TEST_F(Sysfs, DamagedNumbersAreUnknown) {
  options_.allowed_cpus = {0};
  write_cache(0, 0, 1, "Data", "a lot", "0");
  write_cache(0, 1, 2, "Unified", "99999999999999999999K", "0");
  write_cache(0, 2, 3, "Unified", "4096K", "0-");
  write("sys/devices/system/cpu/cpu0/cache/index2/coherency_line_size", "wide\n");
  const Machine machine = found();
  expect_cache(machine, 1, 32 * KiB, 0, Source::assumed);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  expect_cache(machine, 3, 4096 * KiB, 0, Source::sysfs);
  EXPECT_EQ(machine.cache(3)->line_bytes, 0);
  EXPECT_EQ(machine.cache(3)->line_source, Source::unknown);
  EXPECT_TRUE(noted(machine, "shares L3 is unknown"));
}

TEST_F(Sysfs, NothingReadableIsAssumedAndNoted) {
  options_.sysfs_root = options_.proc_root = "/nonexistent";
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 2u);
  expect_cache(machine, 1, 32 * KiB, 0, Source::assumed);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  EXPECT_EQ(machine.cache(1)->line_bytes, 0);
  EXPECT_EQ(machine.cpu_quota, 0);
  EXPECT_EQ(machine.quota_source, Source::unknown);
  EXPECT_EQ(machine.usable_threads, 4);
  for (const char* part : {"sysfs lists no caches", "L1 is unknown", "L2 is unknown", "cgroup"}) {
    EXPECT_TRUE(noted(machine, part)) << part;
  }
}

TEST_F(Sysfs, FoldersInPlaceOfFilesAreUnreadable) {
  options_.allowed_cpus = {0};
  write("sys/devices/system/cpu/cpu0/cache/index0/level/x", "");
  write("proc/self/cgroup/x", "");
  const Machine machine = found();
  expect_cache(machine, 1, 32 * KiB, 0, Source::assumed);
  EXPECT_EQ(machine.quota_source, Source::unknown);
}

TEST(CpuListTest, ParsesTheKernelsFormat) {
  EXPECT_EQ(parse_cpu_list("0"), (CpuList{0}));
  EXPECT_EQ(parse_cpu_list("8,0-3,2"), (CpuList{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list(""), CpuList{});
  for (const char* bad : {"a", "1-", "-1", "3-1", "0,", ",0", "0 1", "0-99999999", "99999999999"}) {
    EXPECT_EQ(parse_cpu_list(bad), std::nullopt) << bad;
  }
}

TEST(TextTest, ParsesBytes) {
  EXPECT_EQ(parse_bytes("32768"), 32768);
  EXPECT_EQ(parse_bytes("48K"), 48 * KiB);
  EXPECT_EQ(parse_bytes("48k"), 48 * KiB);
  EXPECT_EQ(parse_bytes("2M"), 2048 * KiB);
  EXPECT_EQ(parse_bytes("2m"), 2048 * KiB);
  EXPECT_EQ(parse_bytes("1G"), 1024 * 1024 * KiB);
  EXPECT_EQ(parse_bytes("0"), 0);
  for (const char* bad : {"", "K", "-1", "+1", " 1", "1 ", "1KiB", "0x10", "1e6", "1.5M", "1T",
                          "9223372036854775808", "9223372036854775807K"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace ioattn::machine
