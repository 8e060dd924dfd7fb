// Wisdom as a value: which record wins, what it is looked up by, and where it is kept.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "status_ok.hpp"
#include "wisdom/places.hpp"
#include "wisdom/samples.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::wisdom;

TEST(Wisdom, KeepsTheMoreRigorousThenTheLater) {
  const Environment here = sample_environment();
  const ProblemClass problem = sample_class();
  Wisdom wisdom;
  EXPECT_EQ(wisdom.records_of(here), nullptr);
  const Record first = sample_record(1, "2026-01-02T00:00:00Z");
  const Record earlier = sample_record(2, "2026-01-01T00:00:00Z");
  const Record later = sample_record(3, "2026-01-03T00:00:00Z");
  const Record patient = sample_record(4, "2025-01-01T00:00:00Z", Rigor::patient);
  EXPECT_TRUE(wisdom.keep(here, problem, first));
  EXPECT_FALSE(wisdom.keep(here, problem, first));
  EXPECT_FALSE(wisdom.keep(here, problem, earlier));
  EXPECT_EQ(wisdom.records_of(here)->at(problem), first);
  EXPECT_TRUE(wisdom.keep(here, problem, later));
  EXPECT_EQ(wisdom.records_of(here)->at(problem), later);
  EXPECT_TRUE(wisdom.keep(here, problem, patient));
  EXPECT_FALSE(wisdom.keep(here, problem, later));
  EXPECT_EQ(wisdom.records_of(here)->at(problem), patient);
  EXPECT_EQ(wisdom.size(), 1);
}

TEST(Wisdom, MergesWhatIsKnownOfEveryEnvironment) {
  Wisdom wisdom = sample_wisdom();
  wisdom.merge(wisdom);
  EXPECT_EQ(wisdom.size(), 3);
  Wisdom other;
  other.keep(sample_environment(), sample_class(10),
             sample_record(9, "2027-01-01T00:00:00Z", Rigor::patient));
  other.keep(sample_environment("scalar"), sample_class(3), sample_record());
  other.keep(sample_environment(), sample_class(10, "dQ+dK+dV"), sample_record(9));
  wisdom.merge(other);
  EXPECT_EQ(wisdom.size(), 4);
  const Records& records = *wisdom.records_of(sample_environment());
  EXPECT_EQ(records.at(sample_class(10)).seconds, 9);
  EXPECT_EQ(records.at(sample_class(10, "dQ+dK+dV")).seconds, 0.5);
  EXPECT_EQ(wisdom.records_of(sample_environment("scalar"))->size(), 1u);
  wisdom.forget(sample_environment());
  EXPECT_EQ(wisdom.records_of(sample_environment()), nullptr);
  EXPECT_EQ(wisdom.size(), 2);
}

// Of a file that is imported, too.
TEST(Wisdom, TakesFieldsOfLaterVersionsThatItDoesNotHave) {
  Wisdom from;
  from.set_unknown(R"({"x":1})");
  from.known_of(sample_environment())->unknown = R"({"y":2})";
  Wisdom into;
  into.merge(from);
  EXPECT_EQ(into.unknown(), R"({"x":1})");
  EXPECT_EQ(into.known_of(sample_environment())->unknown, R"({"y":2})");
}

TEST(Wisdom, KeepsTheLaterRatesOfATypeAndEnvironment) {
  const Environment here = sample_environment();
  Wisdom wisdom;
  EXPECT_EQ(wisdom.rates_of(here, "f32"), nullptr);
  Rates faster = sample_rates("2026-02-01T00:00:00Z");
  faster.multiply_adds *= 2;
  wisdom.keep_rates(here, "f32", faster);
  wisdom.keep_rates(here, "f32", sample_rates("2026-01-01T00:00:00Z"));
  EXPECT_EQ(*wisdom.rates_of(here, "f32"), faster);
  EXPECT_EQ(wisdom.rates_of(here, "f64"), nullptr);
  EXPECT_EQ(wisdom.rates_of(sample_environment("scalar"), "f32"), nullptr);
  EXPECT_EQ(wisdom.size(), 0) << "no plans";
  Wisdom other;
  other.keep_rates(here, "f32", sample_rates("2026-01-15T00:00:00Z"));
  other.keep_rates(here, "bf16", sample_rates());
  wisdom.merge(other);
  EXPECT_EQ(*wisdom.rates_of(here, "f32"), faster);
  ASSERT_NE(wisdom.rates_of(here, "bf16"), nullptr);
  EXPECT_EQ(*wisdom.rates_of(here, "bf16"), sample_rates());
  faster.date = "2026-02-02T00:00:00Z";
  other.keep_rates(here, "f32", faster);
  wisdom.merge(other);
  EXPECT_EQ(wisdom.rates_of(here, "f32")->date, faster.date);
  wisdom.forget(here);
  EXPECT_EQ(wisdom.rates_of(here, "f32"), nullptr);
}

TEST(Wisdom, SaysWhichRatesNoCpuHas) {
  EXPECT_OK(check(sample_rates()));
  const auto reason = [](double Rates::*field, double value) {
    Rates rates = sample_rates();
    rates.*field = value;
    const Verdict verdict = check(rates);
    EXPECT_EQ(verdict.is_ok(), verdict.message.empty());
    return verdict.reason;
  };
  for (const double value : {0., 1e4, 1e14}) {
    EXPECT_EQ(reason(&Rates::multiply_adds, value), Reason::rates) << value;
  }
  for (double Rates::*field : {&Rates::word_seconds, &Rates::inner_word_seconds}) {
    for (const double value : {0., 1e-14, 1e-4}) EXPECT_EQ(reason(field, value), Reason::rates);
    EXPECT_EQ(reason(field, 1e-9), Reason::none);
  }
}

TEST(Wisdom, KeepsClassesApart) {
  const ProblemClass base = sample_class();
  std::vector<ProblemClass> others(6, base);
  others[0].op = "dQ";
  others[1].dtype = "f64";
  others[2].d = 65;
  others[3].dv = 63;
  others[4].log2_n = 11;
  others[5].log2_m = 9;
  Wisdom wisdom;
  wisdom.keep(sample_environment(), base, sample_record());
  for (const ProblemClass& other : others) {
    EXPECT_TRUE(wisdom.keep(sample_environment(), other, sample_record())) << to_text(other);
    EXPECT_NE(to_text(other), to_text(base));
  }
  EXPECT_EQ(wisdom.size(), 7);
  EXPECT_EQ(log2_of(0), 0);
  EXPECT_EQ(log2_of(1), 0);
  EXPECT_EQ(log2_of(1023), 9);
  EXPECT_EQ(log2_of(1024), 10);
  EXPECT_EQ(log2_of(2047), 10);
}

TEST(Wisdom, TellsWhatDiffersFirst) {
  const Environment here = sample_environment();
  EXPECT_OK(compare(here, here));
  const auto differs = [&](std::string Environment::*field) {
    Environment other = here;
    other.*field = "another";
    const Verdict verdict = compare(other, here);
    EXPECT_NE(verdict.message.find("another"), std::string::npos) << verdict.message;
    EXPECT_NE(verdict.message.find(here.*field), std::string::npos) << verdict.message;
    return verdict.reason;
  };
  EXPECT_EQ(differs(&Environment::library), Reason::library);
  EXPECT_EQ(differs(&Environment::kernels), Reason::kernels);
  EXPECT_EQ(differs(&Environment::isa), Reason::isa);
  EXPECT_EQ(differs(&Environment::cpu), Reason::cpu);
  EXPECT_EQ(differs(&Environment::caches), Reason::caches);
}

// Seconds of this process for ten thousand look-ups, the best of a few: the machine may be busy.
double look_up_time(int records) {
  Wisdom wisdom;
  for (int i = 0; i < records; ++i)
    wisdom.keep(sample_environment(), sample_class(i % 20, "dQ+dK+dV", i / 20), sample_record());
  constexpr int count = 10000;
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::clock_t start = std::clock();
    int found = 0;
    for (int k = 0; k < count; ++k) {
      const int i = k % records;
      const Records* of_here = wisdom.records_of(sample_environment());
      found += of_here->contains(sample_class(i % 20, "dQ+dK+dV", i / 20)) ? 1 : 0;
    }
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_EQ(found, count);
  }
  return best;
}

TEST(Wisdom, IsLookedUpAmongManyAboutAsFastAsAmongFew) {
  const double few = look_up_time(100), many = look_up_time(10000);
  testing::Test::RecordProperty("microseconds", std::to_string(many / 10000 * 1e6));
  EXPECT_LT(many, 10 * few) << "one by one it would be 100 times";
}

TEST(Places, AreTheVariableThenTheCacheDirectory) {
  const auto user = [](const char* variable, const char* cache, const char* home) {
    return places(variable, cache, home).user;
  };
  EXPECT_EQ(user(nullptr, "/c", "/h"), "/c/ioattn/wisdom.json");
  EXPECT_EQ(user("", nullptr, "/h"), "/h/.cache/ioattn/wisdom.json");
  EXPECT_EQ(user(nullptr, "relative", "/h"), "/h/.cache/ioattn/wisdom.json");
  EXPECT_EQ(user(nullptr, nullptr, nullptr), "");
  EXPECT_EQ(user(nullptr, "", ""), "");
  EXPECT_EQ(user("my.json", "/c", "/h"), "my.json");
  EXPECT_EQ(places(nullptr, nullptr, nullptr).system, "/etc/ioattn/wisdom.json");
  EXPECT_EQ(places("my.json", "/c", "/h").system, "");
  const Places off = places("off", "/c", "/h");
  EXPECT_TRUE(off.off && off.user.empty() && off.system.empty());
  EXPECT_FALSE(places("offal", "/c", "/h").off);
}

}  // namespace
}  // namespace ioattn_test
