// Counters without a PMU: answers of the kernel, kept and played.
#include "instruments/counters/recording.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <algorithm>

#include "instruments/counters/counters.hpp"
#include "instruments/fake_perf.hpp"
#include "instruments/replayed_perf.hpp"

namespace ioattn::instruments {
namespace {

const std::vector<Event> events = {{"a", {PERF_TYPE_RAW, 0x151}, ""},
                                   {"b", {PERF_TYPE_RAW, 0x1f25}, ""},
                                   {"c", {PERF_TYPE_SOFTWARE, 2}, ""}};

std::vector<CounterValue> count(PerfSystem* system) {
  ThreadCounters counters(system, events, {});
  counters.start();
  counters.stop();
  return counters.read();
}

void expect_equal(const std::vector<CounterValue>& p, const std::vector<CounterValue>& q) {
  ASSERT_EQ(p.size(), q.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(p[i].validity, q[i].validity);
    EXPECT_EQ(p[i].count, q[i].count);
    EXPECT_EQ(p[i].enabled_ns, q[i].enabled_ns);
    EXPECT_EQ(p[i].running_ns, q[i].running_ns);
    EXPECT_EQ(p[i].error, q[i].error);
    EXPECT_EQ(p[i].reason, q[i].reason);
  }
}

TEST(Recording, ReplaysWhatWasCounted) {
  FakePerf system;
  system.thread_ids = {100, 101};
  system.running_of = [](int thread) { return thread == 100 ? 900u : 1000u; };
  system.open_errors[0x1f25] = EACCES;
  RecordingPerf recorder(&system);
  const std::vector<CounterValue> counted = count(&recorder);
  EXPECT_EQ(counted[0].validity, Validity::multiplexed);
  ReplayedPerf replay(recorder.text());
  expect_equal(count(&replay), counted);
  EXPECT_TRUE(replay.is_finished());
  EXPECT_EQ(replay.complaint(), "");
}

TEST(Recording, OfACommand) {
  FakePerf system;
  RecordingPerf recorder(&system);
  const auto count_command = [](PerfSystem* perf) {
    return CommandCounters(perf, events, {}, 4711).read();
  };
  const std::vector<CounterValue> counted = count_command(&recorder);
  EXPECT_NE(recorder.text().find("4711 -1 children = 3\n"), std::string::npos) << recorder.text();
  ReplayedPerf replay(recorder.text());
  expect_equal(count_command(&replay), counted);
}

TEST(Replay, IsReadByHand) {
  ReplayedPerf replay(
      "# a group of two on one thread, the third event not allowed\n"
      "threads 12\n"
      "open 4 0x151 12 -1 group = 5\n"
      "open 4 0x1f25 12 5 group = 6\n"
      "open 1 0x2 12 5 group = -13\n"
      "enable 5 = 0\n"
      "disable 5 = 0\n"
      "threads 12\n"
      "read 5 = 2 2000 1000 18446744073709551615 70\n");
  const std::vector<CounterValue> values = count(&replay);
  EXPECT_EQ(replay.complaint(), "");
  EXPECT_TRUE(replay.is_finished());
  EXPECT_EQ(values[0].count, UINT64_MAX);
  EXPECT_EQ(values[1].count, 70u);
  EXPECT_EQ(values[1].estimate, 140.0);
  EXPECT_EQ(values[1].validity, Validity::multiplexed);
  EXPECT_EQ(values[2].error, EACCES);
}

TEST(Replay, ComplainsAboutOtherCalls) {
  const std::string good =
      "threads 12\nopen 4 0x151 12 -1 group = 5\nopen 4 0x1f25 12 5 group = 6\n"
      "open 1 0x2 12 5 group = 7\nenable 5 = 0\ndisable 5 = 0\nthreads 12\n"
      "read 5 = 3 10 10 1 2 3\n";
  ReplayedPerf whole(good);
  EXPECT_EQ(count(&whole)[2].count, 3u);
  EXPECT_EQ(whole.complaint(), "");
  const std::pair<const char*, const char*> changes[] = {
      {"0x151", "0x152"},       {"12 -1", "13 -1"},   {"12 5 group = 6", "12 4 group = 6"},
      {"enable 5", "enable 6"}, {"read 5", "read 6"}, {"open 1 0x2", "open 0 0x2"},
  };
  for (const auto& [from, to] : changes) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    ReplayedPerf replay(text);
    const std::vector<CounterValue> values = count(&replay);
    EXPECT_NE(replay.complaint(), "") << text;
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](const CounterValue& value) {
      return value.error == EPROTO && !value.count;
    })) << text;
  }
}

// Whatever is in the file: values that say so, no end of the program.
TEST(Replay, OfDamagedText) {
  const std::string good = "threads 12\nopen 4 0x151 12 -1 group = 5\nread 5 = 1 2 3\n";
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    ReplayedPerf replay(good.substr(0, cut));
    for (const CounterValue& value : count(&replay)) {
      EXPECT_EQ(value.validity, Validity::unavailable);
      EXPECT_EQ(value.count, std::nullopt);
    }
  }
}

}  // namespace
}  // namespace ioattn::instruments
