#include "machine/machine.hpp"

#include <sched.h>

#include <set>
#include <sstream>
#include <thread>

#include "fake_system.hpp"
#include "machine/cpu_list.hpp"
#include "machine/processor.hpp"

namespace ioattn::machine {
namespace {

CacheLevel cache_of(int level, index_t share) {
  CacheLevel cache;
  cache.level = level;
  cache.share_bytes = share;
  cache.source = Source::sysfs;
  return cache;
}

TEST(FastMemoryTest, IsTheSharesFractionInWords) {
  const FastMemory l1 = fast_memory(cache_of(1, 32768), DType::f32);
  EXPECT_EQ(l1.level, 1);
  EXPECT_EQ(l1.share_bytes, 32768);
  EXPECT_EQ(l1.fraction, 0.5);
  EXPECT_EQ(l1.words, 4096);
  EXPECT_EQ(l1.source, Source::sysfs);
  const FastMemory l2 = fast_memory(cache_of(2, 524288), DType::f64);
  EXPECT_EQ(l2.fraction, 0.75);
  EXPECT_EQ(l2.words, 49152);
  EXPECT_EQ(fast_memory(cache_of(3, 524288), DType::f32).words, 98304);
}

TEST(FastMemoryTest, RoundsDownAndNeverOverflows) {
  EXPECT_EQ(fast_memory(cache_of(2, 0), DType::f32).words, 0);
  EXPECT_EQ(fast_memory(cache_of(2, 5), DType::f32).words, 0);   // 3.75 bytes
  EXPECT_EQ(fast_memory(cache_of(2, 6), DType::f32).words, 1);   // 4.5 bytes
  EXPECT_EQ(fast_memory(cache_of(1, 15), DType::f32).words, 1);  // 7.5 bytes
  EXPECT_EQ(fast_memory(cache_of(1, 15), DType::f64).words, 0);
  EXPECT_EQ(fast_memory(cache_of(2, -1000), DType::f32).words, 0);
  // (2^63 - 1) * 3 / 16 = 3 * 2^59 - 3/16
  EXPECT_EQ(fast_memory(cache_of(2, INT64_MAX), DType::f32).words, 3 * (index_t{1} << 59) - 1);
}

TEST(FastIsaTest, LeavesOutWhatIsSlow) {
  Machine machine;
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16}) machine.isa.add(isa);
  machine.vendor = "AuthenticAMD";
  EXPECT_EQ(fast_isa(machine), machine.isa);
  machine.vendor = "GenuineIntel";
  EXPECT_FALSE(fast_isa(machine).has(Isa::avx512_bf16));
  EXPECT_TRUE(fast_isa(machine).has(Isa::avx512));
  machine.isa.add(Isa::avx512_amx);
  EXPECT_TRUE(fast_isa(machine).has(Isa::avx512_amx));
}

TEST(SourceTest, EveryOneHasItsName) {
  EXPECT_STREQ(name_of(Source::unknown), "unknown");
  EXPECT_STREQ(name_of(Source::override_variable), "override");
  EXPECT_STREQ(name_of(Source::hwloc), "hwloc");
  EXPECT_STREQ(name_of(Source::sysfs), "sysfs");
  EXPECT_STREQ(name_of(Source::assumed), "assumed");
  EXPECT_STREQ(name_of(Source::affinity), "affinity");
}

// The rest of the file looks at the machine that runs the test.
TEST(ThisMachine, IsComplete) {
  const Machine& machine = this_machine();
  EXPECT_FALSE(machine.vendor.empty());
  EXPECT_GE(machine.allowed_cpus, machine.usable_threads);
  EXPECT_GE(machine.usable_threads, 1);
  EXPECT_TRUE(machine.isa.has(Isa::scalar));
  ASSERT_GE(machine.caches.size(), 2u);
  int last = 0;
  for (const CacheLevel& cache : machine.caches) {
    EXPECT_GT(cache.level, last);
    last = cache.level;
    EXPECT_GT(cache.share_bytes, 0);
    EXPECT_LE(cache.share_bytes, cache.size_bytes);
    EXPECT_NE(cache.source, Source::unknown);
    EXPECT_EQ(cache.line_bytes > 0, cache.line_source != Source::unknown);
  }
  EXPECT_EQ(machine.caches[0].level, 1);
  EXPECT_EQ(machine.caches[1].level, 2);
}

TEST(ThisMachine, IsTheSameForEveryThread) {
  std::vector<const Machine*> seen(8);
  std::vector<std::thread> threads;
  for (const Machine*& machine : seen) {
    threads.emplace_back([&machine] { machine = &this_machine(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<const Machine*>(seen.begin(), seen.end()).size(), 1u);
  EXPECT_NE(seen[0], nullptr);
}

TEST(ThisMachine, FollowsTheAffinityMaskAndKeepsIt) {
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0) GTEST_SKIP() << "more than 1024 CPUs";
  EXPECT_EQ(detect().allowed_cpus, CPU_COUNT(&before));
  EXPECT_EQ(detect().cpus_source, Source::affinity);
  const CpuList cpus = affinity();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpus.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  DetectOptions real;
  real.use_environment = false;
  const Machine machine = detect(real);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_TRUE(CPU_EQUAL(&one, &after));
  EXPECT_EQ(machine.allowed_cpus, 1);
  EXPECT_EQ(machine.usable_threads, 1);
  for (const CacheLevel& cache : machine.caches) {
    EXPECT_LE(cache.sharing_cpus, 1);
    EXPECT_EQ(cache.share_bytes, cache.size_bytes);
  }
}

#if defined(__x86_64__)
// The kernel reads CPUID too and says what it found.
TEST(ProcessorTest, AgreesWithTheKernel) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(cpuinfo, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
  }
  if (flags.empty()) GTEST_SKIP() << "no x86 flags in /proc/cpuinfo";
  const Processor processor = read_processor("/proc");
  EXPECT_EQ(processor.isa.has(Isa::avx2), flags.count("avx2") && flags.count("fma"));
  EXPECT_EQ(processor.isa.has(Isa::avx512), flags.count("avx512f") && flags.count("avx512bw") &&
                                                flags.count("avx512cd") &&
                                                flags.count("avx512dq") && flags.count("avx512vl"));
  EXPECT_EQ(processor.virtual_machine, flags.count("hypervisor") == 1);
  Processor kernel;
  fill_from_cpuinfo("/proc/cpuinfo", &kernel);
  EXPECT_EQ(processor.vendor, kernel.vendor);
  EXPECT_EQ(processor.family, kernel.family);
  EXPECT_EQ(processor.model_number, kernel.model_number);
  EXPECT_EQ(processor.stepping, kernel.stepping);
  EXPECT_EQ(processor.model, kernel.model);
  EXPECT_FALSE(processor.isa.has(Isa::neon));
  EXPECT_FALSE(processor.isa.has(Isa::avx512_amx));  // which is the kernel's to grant
}
#elif defined(__aarch64__)
TEST(ProcessorTest, HasNeonAndNothingOfX86) {
  IsaSet expected;
  expected.add(Isa::neon);
  EXPECT_TRUE(read_processor("/proc").isa == expected);
}
#endif

class CpuinfoTest : public FakeSystem {
 protected:
  void fill(const std::string& cpuinfo, Processor* processor) {
    write("proc/cpuinfo", cpuinfo);
    fill_from_cpuinfo(options_.proc_root + "/cpuinfo", processor);
  }
};

TEST_F(CpuinfoTest, OfX86) {
  Processor processor;
  fill(
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
      "model name\t:  Intel(R) \x01Xeon(R) Gold \nstepping\t: 8\n\nprocessor\t: 1\n"
      "model\t\t: 1\nmodel name\t: other\ncpu\t: of another block\n",
      &processor);
  EXPECT_EQ(processor.vendor, "GenuineIntel");
  EXPECT_EQ(processor.model, "Intel(R) Xeon(R) Gold");
  EXPECT_EQ(processor.family, 6);
  EXPECT_EQ(processor.model_number, 0x8f);
  EXPECT_EQ(processor.stepping, 8);
}

TEST_F(CpuinfoTest, OfArm) {
  Processor processor;
  fill(
      "\nprocessor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
      "CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\nCPU part\t: 0xd40\n"
      "stepping\t: 7\n",
      &processor);
  EXPECT_EQ(processor.vendor, "0x41");
  EXPECT_EQ(processor.model, "0xd0c");
  EXPECT_EQ(processor.family, 8);
  EXPECT_EQ(processor.model_number, 0xd0c);
  EXPECT_EQ(processor.stepping, 0) << "of another CPU";
}

TEST_F(CpuinfoTest, FillsOnlyWhatIsEmpty) {
  Processor processor;
  processor.model = "of CPUID";
  processor.family = 25;
  fill("CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n", &processor);
  EXPECT_EQ(processor.vendor, "0x41");
  EXPECT_EQ(processor.model, "of CPUID");
  EXPECT_EQ(processor.family, 25);
  EXPECT_EQ(processor.model_number, 0xd40);
}

TEST_F(CpuinfoTest, SaysNothingThatIsNotThere) {
  Processor processor;
  fill_from_cpuinfo(options_.proc_root + "/nowhere", &processor);
  fill("model\t: many\ncpu family\t: 99999999999\nstepping\t: -1\n", &processor);
  EXPECT_EQ(processor.vendor, "");
  EXPECT_EQ(processor.family, 0);
  EXPECT_EQ(processor.model_number, 0);
  EXPECT_EQ(processor.stepping, 0);
}

}  // namespace
}  // namespace ioattn::machine
