// What is made of the kernel's answers, without a kernel that counts.
#include "instruments/counters/counters.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include "instruments/fake_perf.hpp"

namespace ioattn::instruments {
namespace {

Event raw(std::uint64_t config) {
  return {"r" + std::to_string(config), {PERF_TYPE_RAW, config}, ""};
}

std::vector<CounterValue> count(FakePerf* system, const std::vector<Event>& events,
                                const Surroundings& surroundings = {}) {
  ThreadCounters counters(system, events, surroundings);
  counters.start();
  counters.stop();
  return counters.read();
}

TEST(ThreadCounters, OneGroupForEachThreadIsSummed) {
  FakePerf system;
  system.thread_ids = {100, 101, 105};
  system.count = [](std::uint64_t config, int thread) {
    return config * static_cast<std::uint64_t>(thread);
  };
  {
    ThreadCounters counters(&system, {raw(1), raw(2)}, {});
    EXPECT_EQ(counters.threads(), 3u);
    ASSERT_EQ(system.open_counters.size(), 6u);
    int leaders = 0;
    for (const auto& [descriptor, counter] : system.open_counters) {
      EXPECT_FALSE(counter.request.with_children);
      if (counter.request.leader < 0) {
        ++leaders;
        EXPECT_EQ(counter.members.size(), 2u);
      } else {
        EXPECT_EQ(system.open_counters.at(counter.request.leader).request.thread,
                  counter.request.thread);
      }
    }
    EXPECT_EQ(leaders, 3);
    counters.start();
    EXPECT_EQ(system.enables, 3);
    counters.stop();
    EXPECT_EQ(system.disables, 3);
    const std::vector<CounterValue> values = counters.read();
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(values[0].count, 306u);
    EXPECT_EQ(values[1].count, 612u);
    for (const CounterValue& value : values) {
      EXPECT_EQ(value.validity, Validity::exact);
      EXPECT_EQ(value.enabled_ns, 3000u);
      EXPECT_EQ(value.running_share(), 1);
      EXPECT_EQ(value.estimate, static_cast<double>(*value.count));
      EXPECT_EQ(value.reason, "");
    }
  }
  EXPECT_TRUE(system.open_counters.empty()) << "descriptors left open";
}

TEST(ThreadCounters, AnEventThatCannotBeOpenedIsNoNumber) {
  for (const int error : {ENOENT, EACCES, EPERM, ENOSYS, EOPNOTSUPP, ENODEV, EINVAL, E2BIG, ENOSPC,
                          EBUSY, EMFILE, ENFILE, ENOMEM, EFAULT, EBADF, EINTR, ENXIO, EIO}) {
    FakePerf system;
    system.thread_ids = {100, 101};
    system.open_errors[2] = error;
    const std::vector<CounterValue> values = count(&system, {raw(1), raw(2), raw(3)});
    EXPECT_EQ(values[0].count, 2u);
    EXPECT_EQ(values[2].count, 6u);
    EXPECT_EQ(values[1].validity, Validity::unavailable);
    EXPECT_EQ(values[1].count, std::nullopt);
    EXPECT_EQ(values[1].estimate, std::nullopt);
    EXPECT_EQ(values[1].error, error);
    EXPECT_EQ(values[1].reason, reason_of(error, {}));
  }
}

// One thread of two without the event: the sum would be of a part.
TEST(ThreadCounters, AnEventOfSomeThreadsIsUnavailable) {
  FakePerf system;
  system.thread_ids = {100};
  ThreadCounters counters(&system, {raw(1)}, {});
  system.read_error = EIO;
  counters.start();
  counters.stop();
  const CounterValue value = counters.read()[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.count, std::nullopt);
  EXPECT_EQ(value.error, EIO);
}

TEST(ThreadCounters, AThreadThatEndedIsLeftOut) {
  FakePerf system;
  system.open_errors[1] = ESRCH;
  const CounterValue value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.count, std::nullopt);
  EXPECT_EQ(value.error, 0);
  EXPECT_EQ(value.reason, "no thread ran while it was to count");
}

TEST(ThreadCounters, GroupsThatAreTooLargeAreSplit) {
  for (const int error : {EINVAL, ENOSPC}) {
    FakePerf system;
    system.largest_group = 2;
    system.group_error = error;
    const std::vector<CounterValue> values =
        count(&system, {raw(1), raw(2), raw(3), raw(4), raw(5)});
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i].count, i + 1) << values[i].reason;
      EXPECT_EQ(values[i].validity, Validity::exact);
    }
    EXPECT_EQ(system.enables, 3);
  }
}

// The kernel takes a group as large as the core's counters; while the watchdog holds one of them
// it never counts.
TEST(ThreadCounters, GroupsLeaveACounterToTheWatchdog) {
  FakePerf system;
  constexpr std::size_t free_counters = 3;  // of the four of a hyper-thread
  system.runs = [](std::size_t members) { return members <= free_counters; };
  const std::vector<CounterValue> values =
      count(&system, {raw(1), raw(2), raw(3), raw(4), raw(5), raw(6)});
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].count, i + 1) << values[i].reason;
  }
}

TEST(ThreadCounters, CountedPartOfTheTimeIsFlagged) {
  FakePerf system;
  system.enabled_ns = 1000;
  system.running_ns = 250;
  const CounterValue value = count(&system, {raw(40)})[0];
  EXPECT_EQ(value.validity, Validity::multiplexed);
  EXPECT_EQ(value.count, 40u) << "as counted";
  EXPECT_EQ(value.estimate, 160.0);
  EXPECT_EQ(value.running_share(), 0.25);
  EXPECT_EQ(value.reason, "counted 25% of the time");
}

// Each group is scaled by its own share.
TEST(ThreadCounters, EstimatesByThread) {
  FakePerf system;
  system.thread_ids = {100, 101};
  system.running_of = [](int thread) { return thread == 100 ? 1000u : 500u; };
  system.count = [](std::uint64_t, int thread) { return thread == 100 ? 10u : 1000u; };
  const CounterValue value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::multiplexed);
  EXPECT_EQ(value.count, 1010u);
  EXPECT_EQ(value.estimate, 2010.0);
}

TEST(ThreadCounters, NeverCountedIsNoZero) {
  FakePerf system;
  system.count = [](std::uint64_t, int) { return 0u; };
  system.running_ns = 0;
  CounterValue value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.count, std::nullopt);
  EXPECT_EQ(value.reason, "it never got a counter: others held them");
  Event of_p_cores = raw(1);
  of_p_cores.pmu = "cpu_core";
  value = count(&system, {of_p_cores})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.reason,
            "it never got a counter: a thread stayed on cores that are not of cpu_core (taskset "
            "pins it to those), or others held them");

  // One thread of two got none: the other's count says nothing about it.
  system.thread_ids = {100, 101};
  system.running_of = [](int thread) { return thread == 100 ? 1000u : 0u; };
  value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.count, std::nullopt);

  // A thread that slept all the while had nothing to count.
  system.running_of = nullptr;
  system.enabled_ns = 0;
  value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.reason, "no thread ran while it was to count");
}

TEST(ThreadCounters, ACountOfZeroIsACount) {
  FakePerf system;
  system.count = [](std::uint64_t, int) { return 0u; };
  const CounterValue value = count(&system, {raw(1)})[0];
  EXPECT_EQ(value.validity, Validity::exact);
  EXPECT_EQ(value.count, 0u);
}

TEST(ThreadCounters, ThreadsThatComeLaterAreMissed) {
  FakePerf system;
  ThreadCounters counters(&system, {raw(7)}, {});
  counters.start();
  system.thread_ids = {100, 200, 201};
  counters.stop();
  const CounterValue value = counters.read()[0];
  EXPECT_EQ(value.validity, Validity::incomplete);
  EXPECT_EQ(value.count, 7u);
  EXPECT_EQ(value.reason, "2 threads began after the counters were opened");

  counters.start();
  system.thread_ids = {100};  // they have ended
  counters.stop();
  EXPECT_EQ(counters.read()[0].validity, Validity::incomplete);
}

TEST(ThreadCounters, CountersThatCannotBeStartedAreUnavailable) {
  FakePerf system;
  system.enable_error = ENXIO;
  const CounterValue value = count(&system, {raw(7)})[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.error, ENXIO);
}

TEST(CommandCounters, AreInheritedAndApart) {
  FakePerf system;
  system.open_errors[2] = EACCES;
  {
    CommandCounters counters(&system, {raw(1), raw(2), raw(3)}, {}, 4711);
    ASSERT_EQ(system.open_counters.size(), 2u);
    for (const auto& [descriptor, counter] : system.open_counters) {
      EXPECT_EQ(counter.request.thread, 4711);
      EXPECT_EQ(counter.request.leader, -1);
      EXPECT_TRUE(counter.request.with_children);
    }
    system.running_ns = 500;
    const std::vector<CounterValue> values = counters.read();
    EXPECT_EQ(values[0].count, 1u);
    EXPECT_EQ(values[0].estimate, 2.0);
    EXPECT_EQ(values[0].validity, Validity::multiplexed);
    EXPECT_EQ(values[1].count, std::nullopt);
    EXPECT_EQ(values[1].error, EACCES);
    EXPECT_EQ(values[2].count, 3u);
    system.read_error = ENODATA;
    EXPECT_EQ(counters.read()[2].error, ENODATA);
  }
  EXPECT_TRUE(system.open_counters.empty());
}

// The kernel takes the counters from a set-user-ID program, and they keep what they had counted.
TEST(CommandCounters, ThatWereTakenAwayAreIncomplete) {
  FakePerf system;
  system.enabled_ns = system.running_ns = 1000;
  CommandCounters counters(&system, {raw(1)}, {}, 4711);
  EXPECT_EQ(counters.read(3900)[0].validity, Validity::exact) << "an exec that took as long";
  EXPECT_EQ(counters.read(std::nullopt)[0].validity, Validity::exact);
  CounterValue value = counters.read(50000)[0];
  EXPECT_EQ(value.validity, Validity::incomplete);
  EXPECT_EQ(value.count, 1u);
  EXPECT_NE(value.reason.find("set-user-ID"), std::string::npos) << value.reason;
  EXPECT_NE(value.reason.find("counted 2% of its CPU time"), std::string::npos) << value.reason;
  // No count at all is no less unavailable.
  system.running_ns = 0;
  value = counters.read(50000)[0];
  EXPECT_EQ(value.validity, Validity::unavailable);
  EXPECT_EQ(value.count, std::nullopt);
}

TEST(PerfSystem, AttributesAreThoseOfUserCode) {
  perf_event_attr attributes;
  fill_attributes({{PERF_TYPE_RAW, 0x151}, 1, -1, false}, &attributes);
  EXPECT_EQ(attributes.type, PERF_TYPE_RAW);
  EXPECT_EQ(attributes.config, 0x151u);
  EXPECT_EQ(attributes.size, sizeof attributes);
  EXPECT_TRUE(attributes.exclude_kernel && attributes.exclude_hv && attributes.disabled);
  EXPECT_FALSE(attributes.inherit || attributes.enable_on_exec || attributes.pinned);
  EXPECT_EQ(attributes.read_format,
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
  fill_attributes({{}, 1, 5, false}, &attributes);
  EXPECT_FALSE(attributes.disabled) << "members follow their leader";
  fill_attributes({{}, 1, -1, true}, &attributes);
  EXPECT_TRUE(attributes.inherit && attributes.enable_on_exec && attributes.disabled);
  EXPECT_EQ(attributes.read_format,
            PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
}

// A + B - C, of values with every fault.
class QuantityTest : public testing::Test {
 protected:
  QuantityTest() {
    file_.events = {raw(1), raw(2), raw(3)};
    file_.quantities = {{1, CacheTraffic::fills, {{1, 0}, {1, 1}, {-1, 2}}, ""},
                        {2, CacheTraffic::write_backs, {}, "nothing counts them"}};
    for (int i = 0; i < 3; ++i) {
      CounterValue value;
      value.event = file_.events[static_cast<std::size_t>(i)];
      value.validity = Validity::exact;
      value.add(std::uint64_t{10} << 2 * i, 100, 100);
      values_.push_back(value);
    }
  }
  EventFile file_;
  std::vector<CounterValue> values_;
};

TEST_F(QuantityTest, IsTheSumOfItsFormula) {
  values_[1].add(5, 100, 100);
  const std::vector<QuantityValue> quantities = evaluate(file_, values_);
  ASSERT_EQ(quantities.size(), 2u);
  EXPECT_EQ(quantities[0].lines, 10 + 45 - 160);
  EXPECT_EQ(quantities[0].validity, Validity::exact);
  EXPECT_EQ(quantities[0].formula, "r1 + r2 - r3");
  EXPECT_EQ(quantities[0].name(), "L1 fills");
  EXPECT_EQ(quantities[1].lines, std::nullopt);
  EXPECT_EQ(quantities[1].validity, Validity::unavailable);
  EXPECT_EQ(quantities[1].reason, "nothing counts them");
}

TEST_F(QuantityTest, IsAsBadAsItsWorstPart) {
  values_[1].validity = Validity::multiplexed;
  values_[1].reason = "half";
  QuantityValue quantity = evaluate(file_, values_)[0];
  EXPECT_EQ(quantity.validity, Validity::multiplexed);
  EXPECT_EQ(quantity.reason, "half");
  EXPECT_TRUE(quantity.lines.has_value());
  values_[0].validity = Validity::incomplete;
  values_[0].reason = "more threads";
  quantity = evaluate(file_, values_)[0];
  EXPECT_EQ(quantity.validity, Validity::incomplete);
  EXPECT_EQ(quantity.reason, "more threads");
  CounterValue missing;
  missing.error = EACCES;
  missing.reason = "not allowed";
  values_[2] = missing;
  quantity = evaluate(file_, values_)[0];
  EXPECT_EQ(quantity.validity, Validity::unavailable);
  EXPECT_EQ(quantity.lines, std::nullopt);
  EXPECT_EQ(quantity.error, EACCES);
  EXPECT_EQ(quantity.reason, "not allowed");
}

}  // namespace
}  // namespace ioattn::instruments
