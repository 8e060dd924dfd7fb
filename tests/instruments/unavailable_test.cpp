#include "instruments/counters/unavailable.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace ioattn::instruments {
namespace {

TEST(Reason, NamesTheCause) {
  Surroundings plain;
  plain.has_pmu = true;
  plain.paranoid = 2;
  Surroundings debian = plain, docker = plain, cloud = plain, bare = plain, sandbox = plain;
  debian.paranoid = 3;
  docker.seccomp_filter = true;
  cloud.has_pmu = false;
  cloud.virtual_machine = true;
  bare.has_pmu = false;
  sandbox.paranoid.reset();
  Surroundings root_in_docker = docker;
  root_in_docker.paranoid = 3;
  root_in_docker.privileged = true;

  const struct {
    int error;
    const Surroundings* where;
    const char* says;
  } cases[] = {
      {ENOENT, &cloud, "ENOENT: no PMU: the hypervisor"},
      {ENOENT, &bare, "ENOENT: no PMU: the kernel found"},
      {ENOENT, &plain, "ENOENT: the PMU of this CPU has no such event"},
      {EACCES, &debian, "EACCES: kernel.perf_event_paranoid is 3: users may not count"},
      {EPERM, &debian, "EPERM: kernel.perf_event_paranoid is 3: users may not count"},
      {EPERM, &docker, "EPERM: a seccomp filter forbids"},
      {EPERM, &root_in_docker, "EPERM: a seccomp filter forbids"},
      {EACCES, &plain, "EACCES: refused, though kernel.perf_event_paranoid is 2"},
      {EACCES, &sandbox, "EACCES: refused, and kernel.perf_event_paranoid cannot be read"},
      {ENOSYS, &plain, "ENOSYS: no perf_event_open here"},
      {EOPNOTSUPP, &cloud, "the hypervisor does not let this event be counted"},
      {EOPNOTSUPP, &plain, "the PMU cannot count this event"},
      {ENODEV, &cloud, "ENODEV: the hypervisor"},
      {ENXIO, &plain, "ENXIO: the PMU cannot"},
      {EINVAL, &plain, "EINVAL: the kernel does not take this event"},
      {E2BIG, &plain, "E2BIG: the kernel is older"},
      {ENOSPC, &plain, "ENOSPC: more events than counters"},
      {EBUSY, &plain, "EBUSY: another program"},
      {EMFILE, &plain, "EMFILE: too many open files"},
      {ENFILE, &plain, "ENFILE: too many open files"},
      {ENOMEM, &plain, "ENOMEM: out of memory"},
      {ESRCH, &plain, "ESRCH: the thread or process has ended"},
      {ENODATA, &plain, "ENODATA: the kernel gave up"},
      {EFAULT, &plain, "EFAULT: Bad address"},
      {9999, &plain, "errno 9999: "},
  };
  for (const auto& c : cases) {
    EXPECT_NE(reason_of(c.error, *c.where).find(c.says), std::string::npos)
        << reason_of(c.error, *c.where) << "\nis not: " << c.says;
  }
}

class SurroundingsTest : public testing::Test {
 protected:
  ~SurroundingsTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Surroundings read() { return read_surroundings(false, {root_ + "/sys", root_ + "/proc"}); }

  std::string root_ = testing::TempDir() + "/ioattn_surroundings_" + std::to_string(getpid());
};

TEST_F(SurroundingsTest, OfNothing) {
  const Surroundings found = read();
  EXPECT_FALSE(found.paranoid || found.has_pmu || found.seccomp_filter || found.privileged);
}

TEST_F(SurroundingsTest, AreRead) {
  write("/proc/sys/kernel/perf_event_paranoid", "-1\n");
  write("/proc/self/status", "Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t2\n");
  write("/sys/bus/event_source/devices/software/type", "1\n");
  Surroundings found = read();
  EXPECT_EQ(found.paranoid, -1);
  EXPECT_TRUE(found.seccomp_filter);
  EXPECT_TRUE(found.privileged);  // CAP_PERFMON
  EXPECT_FALSE(found.has_pmu);
  for (const char* pmu : {"cpu", "cpu_core", "armv8_pmuv3"}) {
    write(std::string("/sys/bus/event_source/devices/") + pmu + "/type", "4\n");
    EXPECT_TRUE(read().has_pmu) << pmu;
    std::filesystem::remove_all(root_ + "/sys/bus/event_source/devices/" + pmu);
  }
  write("/proc/sys/kernel/perf_event_paranoid", "rubbish\n");
  write("/proc/self/status", "CapEff:\t00000000a80425fb\nSeccomp:\t0\n");
  found = read();
  EXPECT_FALSE(found.paranoid.has_value());
  EXPECT_FALSE(found.seccomp_filter);
  EXPECT_FALSE(found.privileged);
  write("/proc/self/status", "CapEff:\t0000000000200000\n");  // CAP_SYS_ADMIN
  EXPECT_TRUE(read().privileged);
  // Root of a user namespace has all capabilities there, and none that the kernel asks for here.
  write("/proc/self/uid_map", "         0       1000          1\n");
  EXPECT_FALSE(read().privileged);
  write("/proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_TRUE(read().privileged);
}

}  // namespace
}  // namespace ioattn::instruments
