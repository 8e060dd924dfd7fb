#include "machine/cgroup.hpp"

#include "fake_system.hpp"

namespace ioattn::machine {
namespace {

class Cgroup : public FakeSystem {
 protected:
  void SetUp() override {
    FakeSystem::SetUp();
    options_.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  }
  void expect_quota(double cpus, int threads, Source source = Source::sysfs) {
    const Machine machine = found();
    EXPECT_DOUBLE_EQ(machine.cpu_quota, cpus);
    EXPECT_EQ(machine.usable_threads, threads);
    EXPECT_EQ(machine.quota_source, source);
    EXPECT_EQ(noted(machine, "quota leaves"), threads < 8);
  }
};

TEST_F(Cgroup, V2QuotaIsRoundedUpToThreads) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  expect_quota(1.5, 2);
  write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  expect_quota(3, 3);
  write("sys/fs/cgroup/job/cpu.max", "1000 100000\n");
  expect_quota(0.01, 1);
  write("sys/fs/cgroup/job/cpu.max", "6400000 100000\n");
  expect_quota(64, 8);
}

TEST_F(Cgroup, V2MaxIsNoLimit) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  expect_quota(0, 8);
}

TEST_F(Cgroup, AnAncestorMayBeSmaller) {
  write("proc/self/cgroup", "0::/slice/job/step\n");
  write("sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slice/job/step/cpu.max", "400000 100000\n");
  expect_quota(2, 2);
  write("sys/fs/cgroup/slice/job/step/cpu.max", "50000 50000\n");
  expect_quota(1, 1);
}

TEST_F(Cgroup, TheMountIsAnAncestorOfPathsThatAreNotMounted) {
  write("sys/fs/cgroup/cpu.max", "250000 100000\n");
  write("sys/fs/neighbour/cpu.max", "1000 100000\n");
  for (const char* path : {"/", "/docker/0123", "/../neighbour", "/.."}) {
    SCOPED_TRACE(path);
    write("proc/self/cgroup", std::string("0::") + path + "\n");
    expect_quota(2.5, 3);
  }
}

TEST_F(Cgroup, V1CpuController) {
  write("proc/self/cgroup",
        "7:memory:/other\n4:cpu,cpuacct:/user/job\n2:cpuset:/x\n1:name=systemd:/y\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  expect_quota(0, 8);
  EXPECT_FALSE(noted(found(), "not understood"));
  write("sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "450000\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us", "-1\n");
  expect_quota(4.5, 5);
  write("sys/fs/cgroup/cpu/user/job/cpu.cfs_quota_us", "20000\n");
  write("sys/fs/cgroup/cpu/user/job/cpu.cfs_period_us", "10000\n");
  expect_quota(2, 2);
}

TEST_F(Cgroup, OtherControllersAndPathsDoNotCount) {
  write("proc/self/cgroup", "3:cpuset:/job\n2:cpuacct:/job\n0::/job\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/other/cpu.max", "100000 100000\n");
  write("sys/fs/cgroup/job/cgroup.procs", "1\n");
  expect_quota(0, 8);
}

TEST_F(Cgroup, HybridHierarchy) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  expect_quota(1, 1);
}

TEST_F(Cgroup, DamagedQuotasAreIgnoredWithANote) {
  write("proc/self/cgroup", "0::/job\n");
  for (const char* bad : {"150000", "150000 ", "150000 0", "0 100000", "-5 100000", "many 100000",
                          "99999999999999999999 1", "1.5 1"}) {
    SCOPED_TRACE(bad);
    write("sys/fs/cgroup/job/cpu.max", std::string(bad) + "\n");
    expect_quota(0, 8);
    EXPECT_TRUE(noted(found(), "not understood"));
  }
}

TEST_F(Cgroup, UnknownIsNoted) {
  expect_quota(0, 8, Source::unknown);
  EXPECT_TRUE(noted(found(), "No cgroup"));
  write("proc/self/cgroup", "garbage\n0:\n\n0::/job\n");
  expect_quota(0, 8, Source::unknown);
  write("sys/fs/cgroup/cgroup.procs", "1\n");
  expect_quota(0, 8, Source::sysfs);
  EXPECT_FALSE(noted(found(), "No cgroup"));
}

TEST(UsableThreads, IsBetweenOneAndTheAllowedCpus) {
  EXPECT_EQ(usable_threads(4, 0), 4);
  EXPECT_EQ(usable_threads(4, 1e-9), 1);
  EXPECT_EQ(usable_threads(4, 1.0), 1);
  EXPECT_EQ(usable_threads(4, 1.0000001), 2);
  EXPECT_EQ(usable_threads(4, 3.5), 4);
  EXPECT_EQ(usable_threads(4, 1e300), 4);
}

}  // namespace
}  // namespace ioattn::machine
