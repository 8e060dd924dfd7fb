#include "instruments/counters/event_file.hpp"
#include "status_ok.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace ioattn::instruments {
namespace {

std::string error_of(const std::string& text) {
  EventFile file;
  const Status status = parse_event_file(text, "file", &file);
  EXPECT_TRUE(status.is_ok() || file.events.empty()) << "changed on failure";
  return status.is_ok() ? "" : status.message();
}

constexpr const char* small_file = R"(# for readers
cpu: a small CPU
match: Vendor 6 0x10-0x12 0x20
match: Other 7

event: A
code: 0x0151
  Lines that
  came in.
event: B
kernel: page-faults
event: C
code: 0xff

quantity: L1 fills
formula: A + B - C
  Prose.
quantity: L2 write-backs
  Nothing counts them.

generic: cache-misses
  Misses of L2.
)";

TEST(EventFile, IsReadAsWritten) {
  EventFile file;
  const Status status = parse_event_file(small_file, "small", &file);
  ASSERT_OK(status);
  EXPECT_EQ(file.cpu, "a small CPU");
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.events[0].id, (EventId{PERF_TYPE_RAW, 0x151}));
  EXPECT_EQ(file.events[0].text, "Lines that came in.");
  EXPECT_EQ(file.events[1].id, (EventId{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}));
  const Quantity* fills = file.find(1, CacheTraffic::fills);
  ASSERT_NE(fills, nullptr);
  EXPECT_EQ(fills->name(), "L1 fills");
  EXPECT_EQ(file.formula_text(*fills), "A + B - C");
  const Quantity* back = file.find(2, CacheTraffic::write_backs);
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->name(), "L2 write-backs");
  EXPECT_TRUE(back->formula.empty());
  EXPECT_EQ(back->text, "Nothing counts them.");
  EXPECT_EQ(file.find(2, CacheTraffic::fills), nullptr);
  ASSERT_EQ(file.generic.size(), 1u);
  EXPECT_EQ(file.generic[0].text, "Misses of L2.");
}

TEST(EventFile, SaysWhatIsWrongAndWhere) {
  const std::string head = "cpu: x\n", event = head + "event: A\ncode: 0x1\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no \"cpu:\""},
      {head, "no \"quantity:\""},
      {"cpu: x\ncpu: y\n", "file:2: said twice"},
      {head + "nonsense\n", "file:2: not \"key: value\""},
      {head + "colour: red\n", "file:2: unknown key"},
      {head + "match:\n", "file:2: no value"},
      {head + "match: Vendor six\n", "file:2: not \"VENDOR FAMILY MODEL...\""},
      {head + "match: Vendor 6 9-3\n", "file:2: not \"VENDOR FAMILY MODEL...\""},
      {head + "code: 0x1\n", "file:2: belongs once to an event"},
      {event + "code: 0x2\n", "file:4: belongs once to an event"},
      {head + "event: A\ncode: 151\n", "file:3: not a hexadecimal code"},
      {head + "event: A\ncode: 0x11111111111111111\n", "file:3: not a hexadecimal code"},
      {head + "event: A\nkernel: coffees\n", "file:3: not an event of the kernel"},
      {head + "libpfm: x::Y\n", "file:2: belongs to an event"},
      {event + "event: A\n", "file:4: there is such an event already"},
      {head + "event: A\nquantity: L1 fills\n", "file:3: event A has no code"},
      {event + "quantity: L1 misses\n", "file:4: not \"L1 fills\""},
      {event + "quantity: L9 fills\n", "file:4: not \"L1 fills\""},
      {event + "formula: A\n", "file:4: belongs once to a quantity"},
      {event + "quantity: L1 fills\nformula: B\n", "file:5: no event above is B"},
      {event + "quantity: L1 fills\nformula: A A\n", "file:5: + or - expected"},
      {event + "quantity: L1 fills\nformula: A +\n", "file:5: ends in a sign"},
      {event + "quantity: L1 fills\nquantity: L1 fills\n", "file:5: there is such a quantity"},
      {event + "generic: page-faults\n", "file:4: not a generic event"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(
        error_of(text).rfind(message.substr(0, 5) == "file:" ? message : "file: " + message, 0), 0u)
        << text << "\n"
        << error_of(text);
  }
}

// Any bytes: a status, never an end of the program.
TEST(EventFile, DamageIsAStatus) {
  const std::string text = small_file;
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    error_of(text.substr(0, cut));
    std::string damaged = text;
    damaged[cut] = static_cast<char>(damaged[cut] ^ 0x91);
    error_of(damaged);
  }
}

TEST(EventFile, OfAPath) {
  const std::string path = testing::TempDir() + "/ioattn_events_" + std::to_string(getpid());
  std::ofstream(path) << small_file;
  EventFile file;
  EXPECT_OK(read_event_file(path, &file));
  EXPECT_EQ(file.cpu, "a small CPU");
  std::filesystem::remove(path);
  const Status status = read_event_file(path, &file);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(std::string(status.message()).find("cannot be read"), std::string::npos);
}

TEST(BuiltinEvents, AllAreReadAndTellBothLevels) {
  std::set<std::string> names;
  for (const NamedText& text : builtin_event_texts()) {
    EventFile file;
    const Status status = parse_event_file(text.text, std::string(text.name), &file);
    ASSERT_OK(status);
    EXPECT_TRUE(names.insert(file.cpu).second) << file.cpu;
    for (const int level : {1, 2}) {
      for (const CacheTraffic kind : {CacheTraffic::fills, CacheTraffic::write_backs}) {
        const Quantity* quantity = file.find(level, kind);
        ASSERT_NE(quantity, nullptr) << text.name;
        EXPECT_TRUE(!quantity->formula.empty() || !quantity->text.empty()) << text.name;
      }
    }
    for (const Event& event : file.events) EXPECT_NE(event.text, "") << text.name << event.name;
    EXPECT_LE(file.events.size(), 6u) << text.name << ": more than a core has counters";
    const bool any = file.matches.empty();
    EXPECT_EQ(any, text.name == builtin_event_texts().back().name) << text.name;
    // Fills, not demand misses of a generic id, nor of an event without prefetches.
    EXPECT_EQ(file.find(1, CacheTraffic::fills)->formula.empty(),
              any || text.name == "arm_neoverse.txt")
        << text.name;
    EXPECT_EQ(file.find(2, CacheTraffic::fills)->formula.empty(), any) << text.name;
    EXPECT_EQ(file.generic.empty(), any) << text.name;
  }
}

TEST(BuiltinEvents, AreChosenByTheCpusNumbers) {
  const std::pair<machine::CpuId, const char*> cases[] = {
      {{"GenuineIntel", 6, 0x3f}, "Intel Haswell and Broadwell"},
      {{"GenuineIntel", 6, 0x5e}, "Intel Skylake and its kin"},
      {{"GenuineIntel", 6, 0x55}, "Intel Skylake, Cascade Lake and Cooper Lake in servers"},
      {{"GenuineIntel", 6, 0x7e}, "Intel Ice Lake and Tiger Lake"},
      {{"GenuineIntel", 6, 0x6a}, "Intel Ice Lake in servers"},
      {{"GenuineIntel", 6, 0x6c}, "Intel Ice Lake in servers"},
      {{"GenuineIntel", 6, 0x8f}, "Intel Sapphire Rapids, Granite Rapids and their kin"},
      {{"GenuineIntel", 6, 0x97}, "Intel Alder Lake and Raptor Lake, P-cores"},
      {{"GenuineIntel", 6, 0x0f}, "not in the tables"},
      {{"AuthenticAMD", 23, 0x01}, "not in the tables"},
      {{"AuthenticAMD", 23, 0x31}, "AMD Zen 2"},
      {{"AuthenticAMD", 25, 0x01}, "AMD Zen 3"},
      {{"AuthenticAMD", 25, 0x11}, "AMD Zen 4"},
      {{"AuthenticAMD", 25, 0x50}, "AMD Zen 3"},
      {{"AuthenticAMD", 25, 0x61}, "AMD Zen 4"},
      {{"AuthenticAMD", 26, 0x02}, "AMD Zen 5"},
      {{"0x41", 8, 0xd40}, "Arm Neoverse"},
      {{"0x41", 8, 0xd08}, "Arm, common PMUv3 events"},
      {{"0x61", 8, 0x22}, "not in the tables"},  // Apple's PMU is its own
      {{"", 0, 0}, "not in the tables"},
  };
  for (const auto& [cpu, name] : cases) {
    EXPECT_EQ(builtin_events_for(cpu).cpu, name)
        << cpu.vendor << " " << cpu.family << " " << cpu.model;
  }
}

// L2 of these servers gives clean lines to L3 as well, and no event tells them apart.
TEST(BuiltinEvents, CountNoWriteBacksWhereCleanLinesAreAmongThem) {
  for (const int model : {0x55, 0x6a, 0x6c}) {
    const EventFile& file = builtin_events_for({"GenuineIntel", 6, model});
    EXPECT_TRUE(file.find(2, CacheTraffic::write_backs)->formula.empty()) << file.cpu;
    EXPECT_FALSE(file.find(2, CacheTraffic::fills)->formula.empty()) << file.cpu;
  }
  for (const int model : {0x3f, 0x5e, 0x7e, 0x8f}) {
    const EventFile& file = builtin_events_for({"GenuineIntel", 6, model});
    EXPECT_FALSE(file.find(2, CacheTraffic::write_backs)->formula.empty()) << file.cpu;
  }
}

TEST(EventFile, TakesTheTypeOfItsPmu) {
  const std::string root = testing::TempDir() + "/ioattn_sysfs_" + std::to_string(getpid());
  std::filesystem::create_directories(root + "/bus/event_source/devices/cpu_core");
  std::ofstream(root + "/bus/event_source/devices/cpu_core/type") << "10\n";
  EventFile hybrid = builtin_events_for({"GenuineIntel", 6, 0x97});
  EventFile plain = builtin_events_for({"GenuineIntel", 6, 0x8f});
  const EventId before = hybrid.events[0].id;
  set_pmu_type("/nowhere", &hybrid);
  EXPECT_EQ(hybrid.events[0].id, before);
  set_pmu_type(root, &hybrid);
  EXPECT_EQ(hybrid.events[0].id, (EventId{10, before.config}));
  set_pmu_type(root, &plain);
  EXPECT_EQ(plain.events[0].id.type, PERF_TYPE_RAW);
  std::filesystem::remove_all(root);
}

// An independent table of the same events: libpfm4's.
TEST(BuiltinEvents, HaveTheCodesOfLibpfm) {
  if (!built_with_libpfm()) GTEST_SKIP() << "built without libpfm4";
  setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);  // names of every CPU's PMU, not of this one's alone
  int compared = 0;
  for (const NamedText& text : builtin_event_texts()) {
    EventFile file;
    ASSERT_OK(parse_event_file(text.text, std::string(text.name), &file));
    for (std::size_t i = 0; i < file.events.size(); ++i) {
      if (file.libpfm[i].empty()) continue;
      EventId id;
      const Status status = resolve_libpfm_name(file.libpfm[i], &id);
      ASSERT_OK(status);
      EXPECT_EQ(id.config, file.events[i].id.config) << text.name << " " << file.libpfm[i];
      ++compared;
    }
  }
  EXPECT_GE(compared, 26);
}

TEST(Event, IsResolvedByName) {
  Event event;
  ASSERT_OK(resolve_event("page-faults", &event));
  EXPECT_EQ(event.id, (EventId{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}));
  EXPECT_EQ(event.text, "");
  EXPECT_EQ(perf_stat_name(event), "page-faults:u");
  ASSERT_OK(resolve_event("r1f25", &event));
  EXPECT_EQ(event.id, (EventId{PERF_TYPE_RAW, 0x1f25}));
  EXPECT_EQ(perf_stat_name(event), "r1f25:u");
  EXPECT_EQ(perf_stat_name(event, "cpu_core"), "cpu_core/config=0x1f25/u");
  ASSERT_OK(resolve_event("task-clock", &event));
  EXPECT_NE(event.text.find("kernel"), std::string::npos) << event.text;
  ASSERT_OK(resolve_event("cache-misses", &event));
  EXPECT_TRUE(is_generic(event.id));
  EXPECT_NE(event.text.find("generic"), std::string::npos);
  // Switches happen in the kernel, which is not counted: always 0.
  for (const char* wrong :
       {"", "r", "rx", "r12345678901234567", "no such event", "context-switches"}) {
    const Status status = resolve_event(wrong, &event);
    EXPECT_FALSE(status.is_ok()) << wrong;
    EXPECT_EQ(std::string(status.message()).rfind("no event \"", 0), 0u) << status.message();
  }
  EXPECT_EQ(event.name, "cache-misses") << "changed on failure";
}

// A code alone would be another event, or one of the kernel's code too.
TEST(Event, OfLibpfmIsOneThatACodeSays) {
  if (!built_with_libpfm()) GTEST_SKIP() << "built without libpfm4";
  setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
  EventId id;
  EXPECT_TRUE(resolve_libpfm_name("skx::L1D:REPLACEMENT", &id).is_ok());
  EXPECT_TRUE(resolve_libpfm_name("skx::L1D:REPLACEMENT:u", &id).is_ok());
  EXPECT_TRUE(resolve_libpfm_name("skx::L1D:REPLACEMENT:c=1", &id).is_ok());
  EXPECT_EQ(id.config, 0x1000151u);
  for (const auto& [name, says] :
       {std::pair("skx::OFFCORE_RESPONSE_0:DMND_DATA_RD:ANY_RESPONSE", "more than a code"),
        {"skx::L1D:REPLACEMENT:k", "user-space code"},
        {"skx::L1D:REPLACEMENT:u=1:k=1", "user-space code"},
        {"skx::L1D:REPLACEMENT:mg=1", "user-space code"}}) {
    const Status status = resolve_libpfm_name(name, &id);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << name;
    EXPECT_NE(std::string(status.message()).find(says), std::string::npos)
        << name << ": " << status.message();
  }
  EXPECT_EQ(id.config, 0x1000151u) << "changed on failure";
}

}  // namespace
}  // namespace ioattn::instruments
