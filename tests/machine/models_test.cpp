#include "machine/models.hpp"

#include <utility>

#include "fake_system.hpp"
#include "machine/cpu_list.hpp"

namespace ioattn::machine {
namespace {

constexpr index_t KiB = 1024;

CpuList cpus_in(const std::string& text) { return parse_cpu_list(text).value(); }

// Machines with known caches, to be seen through either provider.
class ModelSystem : public FakeSystem {
 protected:
  void write_sysfs(const MachineModel& model) {
    std::map<int, int> next_index;
    for (const ModelCaches& caches : model.caches) {
      for (const char* sharers : caches.cpus) {
        for (const int cpu : cpus_in(sharers)) {
          write_cache(cpu, next_index[cpu]++, caches.level, caches.type,
                      std::to_string(caches.kib) + "K", sharers, caches.line, caches.ways);
        }
      }
    }
  }

  // As if the machine of the file were this one.
  void ask_hwloc(const MachineModel& model) {
    ASSERT_TRUE(std::filesystem::exists(model.xml())) << model.xml();
    setenv("HWLOC_XMLFILE", model.xml().c_str(), 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    options_.use_hwloc = true;
  }

  void allow(const std::string& cpus) { options_.allowed_cpus = cpus_in(cpus); }

  static void expect_sight(const Machine& machine, const Sight& sight, Source source) {
    EXPECT_EQ(machine.allowed_cpus, sight.cpus);
    ASSERT_EQ(machine.caches.size(), sight.caches.size());
    for (std::size_t i = 0; i < sight.caches.size(); ++i) {
      const DecidingCache& expected = sight.caches[i];
      expect_cache(machine, expected.level, expected.kib * KiB, expected.sharing_cpus, source);
      const CacheLevel& cache = machine.caches[i];
      SCOPED_TRACE(expected.level);
      EXPECT_EQ(cache.share_bytes, expected.share_bytes);
      EXPECT_EQ(cache.ways, expected.ways);
      EXPECT_EQ(cache.line_bytes, expected.line);
      EXPECT_EQ(cache.line_source, source);
      EXPECT_EQ(fast_memory(cache, DType::f32).words, expected.words_f32);
      EXPECT_EQ(fast_memory(cache, DType::f64).words, expected.words_f32 / 2);
    }
    for (int level = 1; level <= 3; ++level) {
      const bool differs = std::count(sight.differing.begin(), sight.differing.end(), level) > 0;
      EXPECT_EQ(noted(machine, "differ in L" + std::to_string(level)), differs) << level;
    }
    EXPECT_EQ(noted(machine, "Some CPUs have no L3"), sight.l3_left_out);
    for (const char* doubt : {"unknown", "assumed", "show no"}) {
      EXPECT_FALSE(noted(machine, doubt)) << doubt;
    }
  }
};

class Models : public ModelSystem, public testing::WithParamInterface<Sight> {};

TEST_P(Models, AsSysfsListsThem) {
  const Sight& sight = GetParam();
  write_sysfs(machine_model(sight.model));
  allow(sight.allowed);
  const Machine machine = found();
  expect_sight(machine, sight, Source::sysfs);
  EXPECT_EQ(machine.usable_threads, sight.cpus);
}

TEST_P(Models, AsHwlocDescribesThem) {
  if (!built_with_hwloc()) GTEST_SKIP() << "built without hwloc";
  const Sight& sight = GetParam();
  ask_hwloc(machine_model(sight.model));
  allow(sight.allowed);
  const Machine machine = found();
  expect_sight(machine, sight, Source::hwloc);
  EXPECT_EQ(machine.usable_threads, sight.cpus);
}

INSTANTIATE_TEST_SUITE_P(Masks, Models, testing::ValuesIn(sights()),
                         [](const auto& instance) { return name_of(instance.param); });

// Files of a container with a CPU quota, below /proc and /sys, as kernel and engines lay them out.
struct Container {
  const char* name;
  std::vector<std::pair<const char*, const char*>> files;
  double quota;
  int threads;  // of seven CPUs
};
std::ostream& operator<<(std::ostream& out, const Container& c) { return out << c.name; }

class Containers : public ModelSystem, public testing::WithParamInterface<Container> {
 protected:
  void SetUp() override {
    FakeSystem::SetUp();
    allow("0-5,8");
    for (const auto& [path, text] : GetParam().files) write(path, text);
  }
  // A quota takes time from threads, not caches from CPUs.
  void expect_container(Source source) const {
    const Machine machine = found();
    expect_sight(machine, sight_of("amd_two_l3", "0-5,8"), source);
    EXPECT_DOUBLE_EQ(machine.cpu_quota, GetParam().quota);
    EXPECT_EQ(machine.quota_source, Source::sysfs);
    EXPECT_EQ(machine.usable_threads, GetParam().threads);
    EXPECT_EQ(noted(machine, "quota leaves"), GetParam().threads < 7);
  }
};

TEST_P(Containers, KeepTheirCachesThroughSysfs) {
  write_sysfs(machine_model("amd_two_l3"));
  expect_container(Source::sysfs);
}

TEST_P(Containers, KeepTheirCachesThroughHwloc) {
  if (!built_with_hwloc()) GTEST_SKIP() << "built without hwloc";
  ask_hwloc(machine_model("amd_two_l3"));
  expect_container(Source::hwloc);
}

const Container containers[] = {
    {"v2_own_namespace",
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "250000 100000\n"}},
     2.5,
     3},
    {"v2_no_quota",
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}},
     0,
     7},
    {"v2_pod_smaller_than_container",
     {{"proc/self/cgroup", "0::/kubepods.slice/pod1.slice/cri-a.scope\n"},
      {"sys/fs/cgroup/cgroup.procs", ""},
      {"sys/fs/cgroup/kubepods.slice/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.max", "400000 100000\n"},
      {"sys/fs/cgroup/kubepods.slice/pod1.slice/cri-a.scope/cpu.max", "max 100000\n"}},
     4,
     4},
    {"v2_hosts_path_not_mounted",
     {{"proc/self/cgroup", "0::/system.slice/docker-0123.scope\n"},
      {"sys/fs/cgroup/cpu.max", "150000 100000\n"}},
     1.5,
     2},
    {"v2_larger_than_the_affinity_mask",
     {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "1600000 100000\n"}},
     16,
     7},
    {"v1_hosts_path_not_mounted",
     {{"proc/self/cgroup", "11:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     0.5,
     1},
    {"v1_parent_smaller",
     {{"proc/self/cgroup", "9:name=systemd:/\n2:cpuacct:/\n1:cpu:/batch/job\n0::/\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "330000\n"},
      {"sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/cpu/batch/job/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/batch/job/cpu.cfs_period_us", "100000\n"}},
     3.3,
     4},
    {"v1_no_quota",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}},
     0,
     7},
};
INSTANTIATE_TEST_SUITE_P(Quotas, Containers, testing::ValuesIn(containers),
                         [](const auto& instance) { return std::string(instance.param.name); });

// Device trees of Arm boards often name caches without their sizes.
TEST_F(ModelSystem, CachesWithoutSizesAreAssumed) {
  write_sysfs(machine_model("arm_neoverse"));
  for (int cpu = 0; cpu < 8; ++cpu) {
    for (int index = 0; index < 2; ++index) {
      remove("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" +
             std::to_string(index) + "/size");
    }
  }
  allow("0-7");
  const Machine machine = found();
  expect_cache(machine, 1, 32 * KiB, 0, Source::assumed);
  expect_cache(machine, 2, 512 * KiB, 0, Source::assumed);
  EXPECT_TRUE(noted(machine, "L1 is unknown"));
  EXPECT_TRUE(noted(machine, "L2 is unknown"));
}

}  // namespace
}  // namespace ioattn::machine
