// The kernel itself, by events that need no PMU.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "instruments/counters/counters.hpp"
#include "instruments/counters/recording.hpp"
#include "instruments/replayed_perf.hpp"
#include "status_ok.hpp"

namespace ioattn::instruments {
namespace {

constexpr std::size_t pages = 500;

void touch_pages() {
  const auto bytes = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) {
    static_cast<volatile char*>(memory)[i * (bytes / pages)] = 1;
  }
  munmap(memory, bytes);
}

// Page faults of this thread so far: memory that a sanitizer keeps beside ours is touched, too.
std::uint64_t page_faults() {
  rusage usage = {};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

Event named(const char* name) {
  Event event;
  EXPECT_OK(resolve_event(name, &event));
  return event;
}

const std::vector<Event>& software() {
  static const std::vector<Event> events = {named("page-faults"), named("task-clock")};
  return events;
}

// "" or why this system lets nobody count.
std::string refusal(const CounterValue& value) { return value.error == 0 ? "" : value.reason; }

TEST(SoftwareEvents, OfThisThread) {
  ThreadCounters counters(&linux_perf(), software(), read_surroundings(false));
  counters.start();
  const std::uint64_t before = page_faults();
  touch_pages();
  const std::uint64_t touched = page_faults() - before;
  counters.stop();
  touch_pages();  // not counted
  const std::vector<CounterValue> values = counters.read();
  if (!refusal(values[0]).empty()) GTEST_SKIP() << refusal(values[0]);
  ASSERT_EQ(values[0].validity, Validity::exact) << values[0].reason;
  EXPECT_GE(*values[0].count, pages);
  EXPECT_LT(*values[0].count, touched + 100);
  ASSERT_EQ(values[1].validity, Validity::exact) << values[1].reason;
  EXPECT_GT(*values[1].count, 0u);
  EXPECT_EQ(values[0].running_ns, values[0].enabled_ns);
}

TEST(SoftwareEvents, OfThreadsThatLiveAlready) {
  std::atomic<int> step{0};
  std::thread worker([&] {
    while (step.load() < 1) std::this_thread::yield();
    touch_pages();
    step.store(2);
    while (step.load() < 3) std::this_thread::yield();
  });
  ThreadCounters counters(&linux_perf(), software(), read_surroundings(false));
  EXPECT_EQ(counters.threads(), linux_perf().threads().size());
  EXPECT_GE(counters.threads(), 2u);
  counters.start();
  step.store(1);
  while (step.load() < 2) std::this_thread::yield();
  counters.stop();
  step.store(3);
  worker.join();
  const CounterValue value = counters.read()[0];
  if (!refusal(value).empty()) GTEST_SKIP() << refusal(value);
  ASSERT_EQ(value.validity, Validity::exact) << value.reason;
  EXPECT_GE(*value.count, pages);
}

TEST(SoftwareEvents, AThreadThatComesLaterIsSeenToBeMissed) {
  ThreadCounters counters(&linux_perf(), software(), read_surroundings(false));
  counters.start();
  std::atomic<bool> done{false};
  std::thread late([&] {
    touch_pages();
    while (!done.load()) std::this_thread::yield();
  });
  counters.stop();
  done.store(true);
  late.join();
  const CounterValue value = counters.read()[0];
  if (!refusal(value).empty()) GTEST_SKIP() << refusal(value);
  EXPECT_EQ(value.validity, Validity::incomplete);
}

// From exec on, with what its children do.
TEST(SoftwareEvents, OfACommandAndItsChildren) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = 0;
    if (read(gate[0], &byte, 1) < 0) _exit(126);
    execl("/bin/sh", "sh", "-c", "/bin/true; /bin/true; exit 3", static_cast<char*>(nullptr));
    _exit(127);
  }
  CommandCounters counters(&linux_perf(), software(), read_surroundings(false), child);
  CommandCounters idle(&linux_perf(), software(), read_surroundings(false), child);
  EXPECT_EQ(write(gate[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  close(gate[0]);
  close(gate[1]);
  const std::vector<CounterValue> values = counters.read();
  if (!refusal(values[0]).empty()) GTEST_SKIP() << refusal(values[0]);
  EXPECT_EQ(values[0].validity, Validity::exact) << values[0].reason;
  EXPECT_GT(*values[0].count, 60u);
  EXPECT_GT(*values[1].count, 0u);
  EXPECT_EQ(idle.read()[0].count, values[0].count) << "two counters of one thing";
}

TEST(SoftwareEvents, AreRecordedAndReplayed) {
  RecordingPerf recorder(&linux_perf());
  const auto count = [](PerfSystem* system) {
    ThreadCounters counters(system, software(), {});
    counters.start();
    touch_pages();
    counters.stop();
    return counters.read();
  };
  const std::vector<CounterValue> real = count(&recorder);
  ReplayedPerf replay(recorder.text());
  const std::vector<CounterValue> again = count(&replay);
  EXPECT_EQ(replay.complaint(), "");
  for (std::size_t i = 0; i < real.size(); ++i) {
    EXPECT_EQ(real[i].count, again[i].count);
    EXPECT_EQ(real[i].enabled_ns, again[i].enabled_ns);
  }
}

// What no kernel knows: a reason, and neither 0 nor an end.
TEST(HardwareEvents, AreCountedOrSayWhyNot) {
  ThreadCounters counters(&linux_perf(), {{"raw", {4, 0x00c0}, ""}, {"none", {999999, 1}, ""}},
                          read_surroundings(false));
  counters.start();
  counters.stop();
  const std::vector<CounterValue> values = counters.read();
  EXPECT_EQ(values[0].count.has_value(), values[0].validity != Validity::unavailable);
  EXPECT_EQ(values[1].validity, Validity::unavailable);
  EXPECT_NE(values[1].error, 0);
  EXPECT_NE(values[1].reason, "");
}

}  // namespace
}  // namespace ioattn::instruments
