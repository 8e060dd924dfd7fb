#include "data_path.hpp"
#include "fake_system.hpp"

namespace ioattn::machine {
namespace {

constexpr index_t KiB = 1024;
constexpr index_t MiB = 1024 * KiB;

class Hwloc : public FakeSystem {
 protected:
  void SetUp() override {
    FakeSystem::SetUp();
    if (!built_with_hwloc()) GTEST_SKIP() << "built without hwloc";
    options_.use_hwloc = true;
  }
  static void describe(const std::string& name) {
    const std::string path = ioattn_test::data_path("machines/" + name);
    ASSERT_TRUE(std::filesystem::exists(path)) << path;
    setenv("HWLOC_XMLFILE", path.c_str(), 1);
  }
};

TEST_F(Hwloc, SharesCachesAmongAllThreadsOfADescribedMachine) {
  describe("intel_smt.xml");
  options_.allowed_cpus = {0};  // of this machine: says nothing about the other
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 3u);
  expect_cache(machine, 1, 48 * KiB, 2, Source::hwloc);
  expect_cache(machine, 2, 1280 * KiB, 2, Source::hwloc);
  expect_cache(machine, 3, 12 * MiB, 8, Source::hwloc);
  EXPECT_EQ(machine.cache(1)->ways, 12);
  EXPECT_EQ(machine.cache(2)->ways, 20);
  EXPECT_EQ(machine.cache(2)->line_bytes, 64);
  EXPECT_EQ(machine.cache(2)->line_source, Source::hwloc);
  EXPECT_EQ(machine.allowed_cpus, 1);
  EXPECT_TRUE(noted(machine, "not of this one"));
  EXPECT_FALSE(noted(machine, "hypervisor"));
}

TEST_F(Hwloc, CountsOnlyAllowedCpusOfThisSystem) {
  describe("intel_smt.xml");
  setenv("HWLOC_THISSYSTEM", "1", 1);
  options_.allowed_cpus = {0, 2, 3};
  const Machine machine = found();
  expect_cache(machine, 1, 48 * KiB, 2, Source::hwloc);  // CPUs 2 and 3 have the least
  expect_cache(machine, 3, 12 * MiB, 3, Source::hwloc);
  options_.allowed_cpus = {0, 2};
  expect_cache(found(), 1, 48 * KiB, 1, Source::hwloc);
  EXPECT_FALSE(noted(found(), "cannot be read"));
}

TEST_F(Hwloc, TakesTheLeastOfSeveralL3) {
  describe("amd_two_l3.xml");
  const Machine machine = found();
  expect_cache(machine, 2, 512 * KiB, 2, Source::hwloc);
  expect_cache(machine, 3, 32 * MiB, 8, Source::hwloc);
  EXPECT_TRUE(noted(machine, "differ in L3"));
  setenv("HWLOC_THISSYSTEM", "1", 1);
  options_.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  expect_cache(found(), 3, 96 * MiB, 8, Source::hwloc);
}

TEST_F(Hwloc, UnknownNumbersStayUnknown) {
  describe("odd.xml");
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 2u);
  expect_cache(machine, 1, 64 * KiB, 1, Source::hwloc);
  EXPECT_EQ(machine.cache(1)->ways, 0);  // fully associative
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  EXPECT_TRUE(noted(machine, "L2 is unknown"));
}

TEST_F(Hwloc, FallsBackToSysfsWithoutAWordOnStderr) {
  write_two_cores();
  write("machine.xml", "<topology garbage");
  setenv("HWLOC_XMLFILE", (options_.sysfs_root + "/../machine.xml").c_str(), 1);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const Machine machine = found();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  expect_cache(machine, 1, 48 * KiB, 2, Source::sysfs);
  EXPECT_TRUE(noted(machine, "no caches in HWLOC_XMLFILE"));
}

TEST_F(Hwloc, SaysThatTheFileIsMissing) {
  setenv("HWLOC_XMLFILE", "/nonexistent/machine.xml", 1);
  const Machine machine = found();
  EXPECT_TRUE(noted(machine, "HWLOC_XMLFILE")) << "hwloc itself falls back silently";
}

TEST_F(Hwloc, NothingReadableIsAssumed) {
  setenv("HWLOC_COMPONENTS", "-linux,-x86", 1);
  const Machine machine = found();
  expect_cache(machine, 1, 32 * KiB, 0, Source::assumed);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  EXPECT_TRUE(noted(machine, "hwloc finds no caches"));
  EXPECT_TRUE(noted(machine, "sysfs lists no caches"));
}

TEST_F(Hwloc, IsNotAskedWhenSwitchedOff) {
  describe("intel_smt.xml");
  write_two_cores();
  options_.use_hwloc = false;
  expect_cache(found(), 2, 1 * MiB, 2, Source::sysfs);
}

TEST_F(FakeSystem, ABuildWithoutHwlocSaysThatItIgnoresTheFile) {
  if (built_with_hwloc()) GTEST_SKIP() << "built with hwloc";
  options_.use_hwloc = true;
  write_two_cores();
  EXPECT_FALSE(noted(found(), "HWLOC_XMLFILE"));
  setenv("HWLOC_XMLFILE", "machine.xml", 1);
  EXPECT_TRUE(noted(found(), "HWLOC_XMLFILE is ignored"));
  expect_cache(found(), 2, 1 * MiB, 2, Source::sysfs);
}

// The two providers look at the same machine, so they must see the same caches.
TEST_F(Hwloc, AgreesWithSysfsHere) {
  DetectOptions real;
  real.use_environment = false;
  const Machine with = detect(real);
  real.use_hwloc = false;
  const Machine without = detect(real);
  if (without.cache(1)->source != Source::sysfs || with.cache(1)->source != Source::hwloc) {
    GTEST_SKIP() << "this system shows no caches";
  }
  ASSERT_EQ(with.caches.size(), without.caches.size());
  for (std::size_t i = 0; i < with.caches.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(with.caches[i].level, without.caches[i].level);
    EXPECT_EQ(with.caches[i].size_bytes, without.caches[i].size_bytes);
    EXPECT_EQ(with.caches[i].share_bytes, without.caches[i].share_bytes);
    EXPECT_EQ(with.caches[i].line_bytes, without.caches[i].line_bytes);
  }
}

}  // namespace
}  // namespace ioattn::machine
