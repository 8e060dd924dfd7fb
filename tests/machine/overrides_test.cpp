#include "fake_system.hpp"

namespace ioattn::machine {
namespace {

constexpr index_t KiB = 1024;

class Overrides : public FakeSystem {
 protected:
  void SetUp() override {
    FakeSystem::SetUp();
    write_two_cores();
  }
};

TEST_F(Overrides, SetSizeAndShare) {
  setenv("IOATTN_L1", "20000", 1);
  setenv("IOATTN_L2", "256k", 1);
  setenv("IOATTN_L3", "3M", 1);
  const Machine machine = found();
  expect_cache(machine, 1, 20000, 0, Source::override_variable);
  expect_cache(machine, 2, 256 * KiB, 0, Source::override_variable);
  expect_cache(machine, 3, 3072 * KiB, 0, Source::override_variable);
  EXPECT_EQ(machine.cache(2)->line_bytes, 64);
  EXPECT_EQ(machine.cache(2)->line_source, Source::sysfs);
  EXPECT_EQ(machine.cache(2)->ways, 0);
  EXPECT_EQ(fast_memory(*machine.cache(2), DType::f32).source, Source::override_variable);
}

TEST_F(Overrides, LeaveTheOtherLevelsAlone) {
  setenv("IOATTN_L2", "64", 1);  // the least that is taken
  const Machine machine = found();
  expect_cache(machine, 1, 48 * KiB, 2, Source::sysfs);
  expect_cache(machine, 2, 64, 0, Source::override_variable);
  expect_cache(machine, 3, 32768 * KiB, 4, Source::sysfs);
}

TEST_F(Overrides, ReplaceWhatWouldBeAssumed) {
  options_.sysfs_root = "/nonexistent";
  setenv("IOATTN_L3", "1M", 1);
  setenv("IOATTN_L1", "16K", 1);
  const Machine machine = found();
  ASSERT_EQ(machine.caches.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(machine.caches[static_cast<std::size_t>(i)].level, i + 1);
  expect_cache(machine, 1, 16 * KiB, 0, Source::override_variable);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  expect_cache(machine, 3, 1024 * KiB, 0, Source::override_variable);
  EXPECT_EQ(machine.cache(1)->line_source, Source::unknown);
  EXPECT_FALSE(noted(machine, "L1 is unknown"));
}

TEST_F(Overrides, MalformedOnesAreIgnoredWithANote) {
  const std::string before = [&] {
    std::string all;
    for (const std::string& note : found().notes) all += note;
    return all;
  }();
  EXPECT_EQ(before.find("IOATTN_"), std::string::npos);
  for (const char* bad : {"0", "63", "-32768", "32KiB", "large", " 32768", "1e5", "1099511627777",
                          "2000000M", "99999999999999999999", "\xff\xfe"}) {
    SCOPED_TRACE(bad);
    setenv("IOATTN_L2", bad, 1);
    const Machine machine = found();
    expect_cache(machine, 2, 1024 * KiB, 2, Source::sysfs);
    EXPECT_TRUE(noted(machine, "IOATTN_L2 is ignored"));
    EXPECT_FALSE(noted(machine, "IOATTN_L1 is ignored"));
  }
}

TEST_F(Overrides, HugeOnesAreTaken) {
  setenv("IOATTN_L2", "1048576M", 1);
  const Machine machine = found();
  expect_cache(machine, 2, index_t{1} << 40, 0, Source::override_variable);
  EXPECT_EQ(fast_memory(*machine.cache(2), DType::f32).words, (index_t{1} << 38) / 4 * 3);
}

TEST_F(Overrides, EmptyOnesAreUnset) {
  setenv("IOATTN_L2", "", 1);
  const Machine machine = found();
  expect_cache(machine, 2, 1024 * KiB, 2, Source::sysfs);
  EXPECT_FALSE(noted(machine, "IOATTN_L2"));
}

TEST_F(Overrides, AreNotReadWhenSwitchedOff) {
  setenv("IOATTN_L2", "256K", 1);
  options_.use_environment = false;
  expect_cache(found(), 2, 1024 * KiB, 2, Source::sysfs);
}

}  // namespace
}  // namespace ioattn::machine
