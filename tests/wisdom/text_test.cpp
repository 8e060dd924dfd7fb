// Wisdom as JSON: what is printed is read back, later versions' fields among it, and whatever else
// is read is refused as a whole, with a reason.

#include "wisdom/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <ctime>
#include <random>

#include "status_ok.hpp"
#include "wisdom/samples.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::wisdom;

// Replaces the first `from`.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(WisdomText, IsReadBack) {
  const Wisdom wisdom = sample_wisdom();
  const std::string text = to_text(wisdom);
  Wisdom read;
  ASSERT_OK(parse(text, &read)) << parse(text, &read).message;
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.size(), wisdom.size());
  for (const char* isa : {"avx2", "avx512"}) {
    EXPECT_EQ(*read.records_of(sample_environment(isa)),
              *wisdom.records_of(sample_environment(isa)));
  }
  EXPECT_EQ(read.known().at(sample_environment()).rates,
            wisdom.known().at(sample_environment()).rates);
  EXPECT_EQ(read.rates_of(sample_environment(), "f64")->unknown, R"({"watts":180})");
  EXPECT_EQ(read.unknown(), R"({"comment":"kept"})");
  EXPECT_EQ(read.known_of(sample_environment())->unknown, R"({"host":"there"})");
  Wisdom nothing;
  EXPECT_OK(parse(to_text(Wisdom()), &nothing));
  EXPECT_EQ(nothing.size(), 0);
}

TEST(WisdomText, RoundsNumbersToNearest) {
  const std::string text = to_text(sample_wisdom());
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    Wisdom read;
    ASSERT_EQ(std::fesetround(mode), 0);
    const bool is_read = parse(text, &read).is_ok();
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
    ASSERT_TRUE(is_read);
    EXPECT_EQ(to_text(read), text);
  }
}

// In the order of names, of two of one name the later, as ASCII.
TEST(WisdomText, KeepsFieldsOfLaterVersions) {
  Wisdom read;
  const std::string text =
      R"({"format":"ioattn wisdom","z":{"b":1,"a":"\u00e9\n","b":[[],-2,[{"x":2.0,"w":null}]]},)"
      R"("schema":1,"environments":[],"\u00e9":18446744073709551615,"a":[true,1e300,{}],"a":0.5})";
  ASSERT_OK(parse(text, &read)) << parse(text, &read).message;
  EXPECT_EQ(to_text(read), R"({"a":0.5,"format":"ioattn wisdom","schema":1,)"
                           R"("z":{"a":"\u00e9\n","b":[[],-2,[{"w":null,"x":2.0}]]},)"
                           R"("\u00e9":18446744073709551615,"environments":[]})"
                           "\n");
  for (const char* none : {"", "{", "7", "[1]", R"({"schema":2})"}) {
    Wisdom wisdom;
    wisdom.set_unknown(none);
    EXPECT_EQ(to_text(wisdom), to_text(Wisdom())) << none;
  }
}

struct Refused {
  std::string text;
  Reason reason;
  std::string word;  // in the message
};

TEST(WisdomText, IsRefusedAsAWholeWithAReason) {
  const std::string good = to_text(sample_wisdom());
  const std::string deep(20000, '[');
  const std::vector<Refused> all = {
      {"", Reason::syntax, "byte 1"},
      {good.substr(0, good.size() / 2), Reason::syntax, "byte"},
      {good + "x", Reason::syntax, "byte"},
      {good + std::string("\0 {{{", 5), Reason::syntax, "a byte of it is 0"},
      {with(good, "\"plan\"", "\"pl\xff\""), Reason::syntax, "byte"},
      {with(good, "0.0125", "1e999"), Reason::syntax, "byte"},
      {deep, Reason::too_deep, "16"},
      {with(good, "[]", "[[[[[[[[[[[[[]]]]]]]]]]]]]"), Reason::too_deep, "16"},
      {std::string(largest_text + 1, ' '), Reason::too_large, "more than 8388608 bytes"},
      {"[]", Reason::schema, "no object"},
      {"{}", Reason::schema, "format"},
      {with(good, "ioattn wisdom", "fftw wisdom"), Reason::schema, "format"},
      {with(good, "\"schema\":1", "\"schema\":2"), Reason::schema, "is 2, not 1"},
      {with(good, "\"schema\":1", "\"schema\":\"1\""), Reason::schema, "not an integer"},
      {with(good, "\"environments\"", "\"elsewhere\""), Reason::schema,
       "\"environments\" is missing"},
      {with(good, "\"library\":\"0.1.0\"", "\"library\":7"), Reason::record, "library"},
      {with(good, "\"records\"", "\"memories\""), Reason::record, "records"},
      {with(good, "\"op\"", "\"opus\""), Reason::record, "\"op\" is missing"},
      {with(good, "\"d\":64", "\"d\":-1"), Reason::record, "\"d\""},
      {with(good, "\"d\":64", "\"d\":64.0"), Reason::record, "\"d\""},
      {with(good, "\"d\":64", "\"d\":18446744073709551615"), Reason::record, "\"d\""},
      {with(good, "\"log2_n\":10", "\"log2_n\":63"), Reason::record, "log2_n"},
      {with(good, "0.0125", "-1"), Reason::record, "seconds"},
      {with(good, "\"rounds\":12", "\"rounds\":0"), Reason::record, "rounds"},
      {with(good, "\"measure\"", "\"estimate\""), Reason::record, "rigor"},
      {with(good, "L2:row", "L2:\\u00e9row"), Reason::record, "plan"},
      {with(good, "L2:row", std::string(2000, 'x')), Reason::record, "plan"},
      {with(good, "\"records\":[", "\"records\":[5,"), Reason::record, "no object"},
      {with(good, "\"rates\":[", "\"rates\":[[],"), Reason::record,
       "environment 0: a member of \"rates\" is no object"},
      {with(good, "\"rates\":[", "\"rates\":7,\"others\":["), Reason::record, "not a list"},
      {with(good, "\"seconds_per_word\":", "\"seconds_per_word\":-"), Reason::record,
       "\"seconds_per_word\""},
      {with(good, "\"seconds_per_inner_word\"", "\"seconds_per_byte\""), Reason::record,
       "environment 0, rates 0: \"seconds_per_inner_word\" is missing"},
      {with(good, "\"multiply_adds_per_second\":", "\"multiply_adds_per_second\":\"\",\"x\":"),
       Reason::record, "multiply_adds_per_second"},
      {with(good, "\"threads\":2", "\"threads\":0"), Reason::record, "threads"},
      {with(good, "\"threads\":2", "\"threads\":18446744073709551615"), Reason::record, "threads"},
      {with(good, "\"dtype\":\"f32\",\"multiply", "\"dtype\":\"\",\"multiply"), Reason::record,
       "rates 0: \"dtype\" is not a text"},
      {with(good, "\"date\":", "\"day\":"), Reason::record, "rates 0: \"date\" is missing"}};
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.text.substr(0, 300));
    Wisdom wisdom = sample_wisdom();
    const Verdict verdict = parse(refused.text, &wisdom);
    EXPECT_EQ(std::string(name_of(verdict.reason)), name_of(refused.reason)) << verdict.message;
    EXPECT_NE(verdict.message.find(refused.word), std::string::npos) << verdict.message;
    EXPECT_EQ(to_text(wisdom), good);
  }
}

// One that names a class twice counts as if they had been merged.
TEST(WisdomText, TakesTheBetterOfTwo) {
  Wisdom wisdom;
  wisdom.keep(sample_environment(), sample_class(), sample_record(1, "2026-01-01T00:00:00Z"));
  std::string text = to_text(wisdom);
  const std::size_t begin = text.find("{\"d\"");
  const std::string line = text.substr(begin, text.find("\n]}") - begin);
  const std::string later = with(with(line, "2026-01-01", "2026-01-02"), ":1.0", ":2.0");
  const std::string orders[] = {line + "," + later, later + "," + line};
  for (const std::string& both : orders) {
    Wisdom read;
    ASSERT_OK(parse(with(text, line, both), &read));
    EXPECT_EQ(read.records_of(sample_environment())->at(sample_class()).seconds, 2);
  }
}

// ---- texts that are wrong in any way

class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t left = 1 + below(3); left > 0; --left) mutate(&text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) {
    return end == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  void mutate(std::string* text) {
    static const std::vector<std::string> tokens = {"{",
                                                    "}",
                                                    "[",
                                                    "]",
                                                    "\"",
                                                    ",",
                                                    ":",
                                                    "null",
                                                    "true",
                                                    "-1",
                                                    "1e999",
                                                    "1e308",
                                                    "0.5",
                                                    "\\u0",
                                                    "\\ud800",
                                                    "\xc3",
                                                    "\xff",
                                                    "\n",
                                                    "\"d\"",
                                                    "{}",
                                                    "[[[[[[[[[[[[[[[[[[",
                                                    "99999999999999999999",
                                                    "-0",
                                                    "\"op\":",
                                                    std::string(1, '\0')};
    const std::size_t place = below(text->size() + 1), length = below(40);
    switch (below(6)) {
      case 0:
        if (place < text->size()) (*text)[place] = static_cast<char>(below(256));
        break;
      case 1: text->erase(place, length); break;
      case 2: text->insert(place, text->substr(below(text->size() + 1), length)); break;
      case 3: text->insert(place, tokens[below(tokens.size())]); break;
      case 4: text->resize(place); break;
      default: replace_number(text, tokens[below(tokens.size())]);
    }
  }
  // The value of a member.
  void replace_number(std::string* text, const std::string& token) {
    const std::size_t colon = text->find(':', below(text->size() + 1));
    if (colon == std::string::npos) return;
    const std::size_t end = text->find_first_of(",}]", colon);
    if (end != std::string::npos) text->replace(colon + 1, end - colon - 1, token);
  }

  std::mt19937 random_;
};

void expect_reasons(unsigned first, unsigned count) {
  const std::string good = to_text(sample_wisdom());
  unsigned refused = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    const std::string text = Mutation(seed)(good);
    Wisdom wisdom = sample_wisdom();
    const Verdict verdict = parse(text, &wisdom);
    if (!verdict.is_ok()) {
      ++refused;
      ASSERT_FALSE(verdict.message.empty()) << seed;
      ASSERT_EQ(wisdom.size(), 3) << seed;
      continue;
    }
    const std::string printed = to_text(wisdom);
    Wisdom again;
    ASSERT_OK(parse(printed, &again)) << seed << ": " << parse(printed, &again).message;
    ASSERT_EQ(to_text(again), printed) << seed;
  }
  EXPECT_GT(refused, count / 2);
  EXPECT_LT(refused, count);
}

TEST(WisdomMutated, FewTextsHaveReasons) { expect_reasons(0, 2000); }
TEST(WisdomMutatedMany, TextsHaveReasons) { expect_reasons(10000, 20000); }
class WisdomMutatedSweep : public testing::TestWithParam<unsigned> {};
TEST_P(WisdomMutatedSweep, TextsHaveReasons) { expect_reasons(GetParam() * 250000, 250000); }
INSTANTIATE_TEST_SUITE_P(Quarter, WisdomMutatedSweep, testing::Values(1, 2, 3, 4));

Wisdom records_of_one_environment(int records) {
  Wisdom wisdom;
  for (int i = 0; i < records; ++i)
    wisdom.keep(sample_environment(), sample_class(i % 20, "dQ+dK+dV", i / 20), sample_record());
  return wisdom;
}

Wisdom environments_of_one_record(int environments) {
  Wisdom wisdom;
  for (int i = 0; i < environments; ++i)
    wisdom.keep(sample_environment(std::to_string(i)), sample_class(10), sample_record());
  return wisdom;
}

// Seconds of this process, the best of a few: the machine may be busy.
double import_time(const Wisdom& wisdom) {
  const std::string text = to_text(wisdom);
  EXPECT_LT(text.size(), largest_text);
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    Wisdom read;
    EXPECT_OK(parse(text, &read));
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_EQ(read.size(), wisdom.size());
  }
  return best;
}

TEST(WisdomImport, TakesTenTimesAsLongForTenTimesTheRecords) {
  const double thousand = import_time(records_of_one_environment(1000));
  const double ten_thousand = import_time(records_of_one_environment(10000));
  testing::Test::RecordProperty("milliseconds", std::to_string(ten_thousand * 1e3));
  EXPECT_LT(ten_thousand, 20 * thousand) << "10 times is linear, 100 times quadratic";
}

// No machine writes that many; who wants to hold up others may.
TEST(WisdomImport, TakesTenTimesAsLongForTenTimesTheEnvironments) {
  const double thousand = import_time(environments_of_one_record(1000));
  const double ten_thousand = import_time(environments_of_one_record(10000));
  EXPECT_LT(ten_thousand, 20 * thousand) << "10 times is linear, 100 times quadratic";
}

}  // namespace
}  // namespace ioattn_test
