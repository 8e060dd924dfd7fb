// The two-level simulator held against Cachegrind: the same kernels on the same addresses in the
// same caches. Cachegrind runs on AVX2, which is what Valgrind has.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "instruments/cachegrind.hpp"

namespace ioattn_test {
namespace {

struct Lines {
  double first = 0, second = 0;
};

// What a command prints, and whether it ended well.
bool output_of(const std::string& command, std::string* text) {
  text->clear();
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return false;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) {
    *text += buffer.data();
  }
  return pclose(pipe) == 0;
}

struct Geometry {
  int first_bytes, first_ways, second_bytes, second_ways;
};

std::string case_command(const std::string& of, int shift, int repetitions) {
  return std::string(IOATTN_OBSERVED_CASE) + " " + of + " " + std::to_string(shift) + " " +
         std::to_string(repetitions);
}

bool simulated(const std::string& of, int shift, int repetitions, const Geometry& g, Lines* lines,
               std::string* text) {
  return output_of(case_command(of, shift, repetitions) + " simulate " +
                       std::to_string(g.first_bytes) + " " + std::to_string(g.first_ways) + " " +
                       std::to_string(g.second_bytes) + " " + std::to_string(g.second_ways),
                   text) &&
         std::sscanf(text->c_str(), "%lf %lf", &lines->first, &lines->second) == 2;
}

bool observed(const std::string& of, int shift, int repetitions, const Geometry& g, Lines* lines,
              std::string* text) {
  std::string command;
  for (const std::string& word : ioattn::instruments::cachegrind_command(
           {g.first_bytes, g.first_ways, 64}, {g.second_bytes, g.second_ways, 64})) {
    command += word + " ";
  }
  if (!output_of(command + case_command(of, shift, repetitions), text)) return false;
  const auto misses = ioattn::instruments::data_misses(*text);
  if (!misses) return false;
  *lines = {static_cast<double>(misses->first), static_cast<double>(misses->last)};
  return true;
}

struct Case {
  const char* of;
  int shift;
  Geometry geometry;
  double within;  // of Cachegrind's misses
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.of << " +" << c.shift << " bytes"; }

class Cachegrind : public testing::TestWithParam<Case> {};

// A repetition is the difference of two runs: what came before it is in the caches.
TEST_P(Cachegrind, MissesAsOftenAsTheSimulator) {
  const auto& [of, shift, sizes, within] = GetParam();
  std::string text;
  if (!output_of("valgrind --version", &text)) GTEST_SKIP() << "no Valgrind: " << text;
  Lines ours[2], theirs[2];
  for (int i = 0; i < 2; ++i) {
    if (!simulated(of, shift, i + 1, sizes, &ours[i], &text)) {
      ASSERT_EQ(text.rfind("unavailable: ", 0), 0u) << text;
      GTEST_SKIP() << text;
    }
    ASSERT_TRUE(observed(of, shift, i + 1, sizes, &theirs[i], &text)) << text;
  }
  const auto compare = [&, of = of, shift = shift, within = within](
                           const char* level, double simulator, double cachegrind) {
    std::printf("%s +%d, %s: %.0f, Cachegrind %.0f: %+.2f%%\n", of, shift, level, simulator,
                cachegrind, 100 * (simulator / cachegrind - 1));
    EXPECT_GT(cachegrind, 1000) << level;
    EXPECT_FALSE(!(std::fabs(simulator / cachegrind - 1) <= within)) << level;
  };
  compare("L1", ours[1].first - ours[0].first, theirs[1].first - theirs[0].first);
  compare("L2", ours[1].second - ours[0].second, theirs[1].second - theirs[0].second);
}

// Aligned to lines within 1 %, or 1.5 % where sums are cut every 64 terms: each call for a block of
// them misses lines of the stack, too. Else within 3 %. Not products with exp: their sums lie on
// the stack, which is elsewhere in every run and environment.
constexpr Geometry geometry = {32768, 8, 196608, 12};
INSTANTIATE_TEST_SUITE_P(
    Kernels, Cachegrind,
    testing::Values(Case{"product", 0, geometry, 0.015}, Case{"gradient", 0, geometry, 0.01},
                    Case{"sum", 0, geometry, 0.015}, Case{"pack", 0, geometry, 0.01},
                    Case{"product", 20, geometry, 0.03}, Case{"sum", 20, geometry, 0.03}));

}  // namespace
}  // namespace ioattn_test
