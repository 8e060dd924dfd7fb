// Kernels of known traffic: the comparison on counts made up here, and the real one where there is
// a PMU.
#include "instruments/counters/proof.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "instruments/fake_perf.hpp"
#include "instruments/replayed_perf.hpp"
#include "machine/cpu_id.hpp"
#include "machine/machine.hpp"
#include "status_ok.hpp"

namespace ioattn::instruments {
namespace {

constexpr ProofSize small_size = {1024, 2, 64};
constexpr double lines_of_array = 2 * 1024 * 8 / 64.0;

// A recording in which every kernel moved `share` of its lines, of a file with one event for each
// quantity (codes 1 to 4: L1 fills, L1 write-backs, L2 fills, L2 write-backs), in groups as large
// as counters are opened in. "read" wrote back `idle` of the lines that it read.
std::string recording(double share, const std::string& times, double idle) {
  std::string text;
  int descriptor = 3;
  for (const auto& [in, back] : {std::pair(1.0, idle), std::pair(2.0, 1.0), std::pair(3.0, 1.0)}) {
    std::string opens, enables, disables, reads;
    for (int code = 1; code <= 4;) {
      const std::string leader = std::to_string(descriptor);
      const int end = std::min(code + static_cast<int>(largest_group), 5);
      enables.append("enable ").append(leader).append(" = 0\n");
      disables.append("disable ").append(leader).append(" = 0\n");
      reads.append("read ").append(leader).append(" = ");
      reads.append(std::to_string(end - code)).append(" ").append(times);
      for (bool leads = true; code < end; ++code, leads = false) {
        opens.append("open 4 0x").append(std::to_string(code)).append(" 9 ");
        opens.append(leads ? "-1" : leader).append(" group = ");
        opens.append(std::to_string(descriptor++)).append("\n");
        const double arrays = code % 2 == 1 ? in : back;
        reads += " " + std::to_string(static_cast<int>(share * arrays * lines_of_array));
      }
      reads += "\n";
    }
    text += "threads 9\n" + opens + enables + disables + "threads 9\n" + reads;
  }
  return text;
}

EventFile four_events() {
  EventFile file;
  const Status status = parse_event_file(
      "cpu: made up\n"
      "event: A\ncode: 0x1\nevent: B\ncode: 0x2\nevent: C\ncode: 0x3\nevent: D\ncode: 0x4\n"
      "quantity: L1 fills\nformula: A\nquantity: L1 write-backs\nformula: B\n"
      "quantity: L2 fills\nformula: C\nquantity: L2 write-backs\nformula: D\n",
      "made up", &file);
  EXPECT_OK(status);
  return file;
}

std::vector<ProofResult> replayed(double share, const std::string& times, double idle = 0) {
  ReplayedPerf replay(recording(share, times, idle));
  std::vector<ProofResult> results = prove(&replay, four_events(), {}, small_size);
  EXPECT_EQ(replay.complaint(), "");
  EXPECT_TRUE(replay.is_finished());
  return results;
}

TEST(Proof, HoldsCountsAgainstTheTrafficOfTheKernels) {
  const std::vector<ProofResult> results = replayed(1, "500 500");
  ASSERT_EQ(results.size(), 12u);
  std::set<std::string> seen;
  for (const ProofResult& result : results) {
    seen.insert(std::string(result.kernel->name) + " " + result.counted.name());
    const bool fills = result.counted.kind == CacheTraffic::fills;
    const std::string kernel = result.kernel->name;
    const int arrays = kernel == "read" ? fills : !fills ? 1 : kernel == "copy" ? 2 : 3;
    EXPECT_EQ(result.expected_lines, arrays * lines_of_array);
    if (arrays > 0) {
      EXPECT_EQ(result.ratio(), 1.0) << kernel << " " << result.counted.name();
    } else {
      EXPECT_EQ(result.ratio(), std::nullopt);
      EXPECT_EQ(result.counted.lines, 0);
    }
    EXPECT_TRUE(result.agrees());
  }
  EXPECT_EQ(seen.size(), 12u);
}

// "read" writes nothing: an event that counts clean lines as they leave shows there.
TEST(Proof, DisagreesWhenCleanLinesAreWrittenBack) {
  for (const auto& [share, agrees] : {std::pair(0.01, true), {0.5, false}, {1.0, false}}) {
    int seen = 0;
    for (const ProofResult& result : replayed(1, "500 500", share)) {
      if (result.expected_lines > 0) continue;
      ++seen;
      EXPECT_NEAR(*result.counted.lines, share * lines_of_array, 1);
      EXPECT_EQ(result.agrees(), agrees) << share;
    }
    EXPECT_EQ(seen, 2);
  }
}

// Lines came in: a count of none is one that somebody else made.
TEST(Proof, TakesNoZeroForACountWhereLinesMoved) {
  for (const ProofResult& result : replayed(0, "500 500")) {
    if (result.expected_lines == 0) continue;
    EXPECT_EQ(result.counted.validity, Validity::unavailable);
    EXPECT_EQ(result.counted.lines, std::nullopt);
    EXPECT_EQ(result.counted.reason,
              "counted 0, which cannot be: a hypervisor may filter this event");
    EXPECT_FALSE(result.agrees());
  }
}

TEST(Proof, DisagreesWhenLinesAreMissingOrTooMany) {
  for (const double share : {0.5, 0.85, 1.5}) {
    for (const ProofResult& result : replayed(share, "500 500")) {
      if (result.expected_lines == 0) continue;
      EXPECT_NEAR(*result.ratio(), share, 0.01);
      EXPECT_FALSE(result.agrees()) << share;
    }
  }
  for (const double share : {0.95, 1.2}) {
    for (const ProofResult& result : replayed(share, "500 500")) EXPECT_TRUE(result.agrees());
  }
}

TEST(Proof, IsNoneOfAnEstimateOrOfNothing) {
  for (const ProofResult& result : replayed(1, "1000 500")) {
    EXPECT_TRUE(result.ratio() == 2.0 || result.expected_lines == 0);
    EXPECT_FALSE(result.agrees());
  }
  for (const ProofResult& result : replayed(1, "1000 0")) {
    EXPECT_EQ(result.ratio(), std::nullopt);
    EXPECT_FALSE(result.agrees());
  }
  FakePerf system;
  for (const std::uint64_t code : {1U, 2U, 3U, 4U}) system.open_errors[code] = ENOENT;
  for (const ProofResult& result : prove(&system, four_events(), {}, small_size)) {
    EXPECT_EQ(result.counted.error, ENOENT);
    EXPECT_EQ(result.ratio(), std::nullopt);
    EXPECT_FALSE(result.agrees());
  }
}

TEST(ProofKernels, DoWhatTheySay) {
  constexpr index_t words = 64;
  const std::vector<double> b(words, 2), c(words, 5);
  const std::vector<double> expected[] = {
      {128}, std::vector<double>(words, 2), std::vector<double>(words, 17)};
  for (std::size_t i = 0; i < proof_kernels().size(); ++i) {
    std::vector<double> a(words, -1);
    proof_kernels()[i].pass(a.data(), b.data(), c.data(), words);
    a.resize(expected[i].size());
    EXPECT_EQ(a, expected[i]) << proof_kernels()[i].name;
  }
}

// On the machine at hand.
TEST(Proof, OnThisMachine) {
  const machine::Machine& machine = machine::this_machine();
  EventFile file = builtin_events_for(machine::cpu_id(machine));
  set_pmu_type("/sys", &file);
  const machine::CacheLevel* l2 = machine.cache(2);
  const ProofSize size = {8 * l2->size_bytes / 8, 4, l2->line_bytes == 0 ? 64 : l2->line_bytes};
  const Surroundings surroundings = read_surroundings(machine.virtual_machine);
  for (const ProofResult& result : prove(&linux_perf(), file, surroundings, size)) {
    if (result.counted.validity == Validity::unavailable) GTEST_SKIP() << result.counted.reason;
    EXPECT_TRUE(result.agrees() || result.counted.validity != Validity::exact)
        << result.kernel->name << " " << result.counted.name() << ": " << *result.ratio();
  }
  if (file.events.empty() || file.matches.empty()) GTEST_SKIP() << "no events of " << file.cpu;
}

}  // namespace
}  // namespace ioattn::instruments
