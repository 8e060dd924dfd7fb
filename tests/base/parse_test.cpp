#include "base/parse.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/types.hpp"

namespace ioattn {
namespace {

TEST(ParseNumber, TakesWholeTexts) {
  int value = 0;
  EXPECT_TRUE(parse_number("-12", &value));
  EXPECT_EQ(value, -12);
  std::uint64_t code = 0;
  EXPECT_TRUE(parse_number("FfffFfffFfffFfff", &code, 16));
  EXPECT_EQ(code, UINT64_MAX);
  double real = 0;
  EXPECT_TRUE(parse_number("-1.5e3", &real));
  EXPECT_EQ(real, -1500);
}

TEST(ParseNumber, LeavesTheValueAtOtherTexts) {
  for (const char* wrong : {"", " 1", "1 ", "+1", "1.5", "0x1", "a", "1,2", "-", "2147483648"}) {
    int value = 7;
    EXPECT_FALSE(parse_number(wrong, &value)) << wrong;
    EXPECT_EQ(value, 7) << wrong;
  }
  for (const char* wrong : {"", "g", "-1", "0x1", "10000000000000000"}) {
    std::uint64_t code = 7;
    EXPECT_FALSE(parse_number(wrong, &code, 16)) << wrong;
    EXPECT_EQ(code, 7u) << wrong;
  }
  for (const char* wrong : {"", "1.5f", "+1.5", "1e999", ".", "1e"}) {
    double real = 7;
    EXPECT_FALSE(parse_number(wrong, &real)) << wrong;
    EXPECT_EQ(real, 7) << wrong;
  }
}

TEST(ParseName, KnowsTheCandidatesAlone) {
  Tie tie = Tie::none;
  EXPECT_TRUE(parse_name("kv", {Tie::none, Tie::kv}, &tie));
  EXPECT_EQ(tie, Tie::kv);
  EXPECT_FALSE(parse_name("all", {Tie::none, Tie::kv}, &tie));
  EXPECT_FALSE(parse_name("all", 2, &tie));
  EXPECT_FALSE(parse_name("kv ", 3, &tie));
  EXPECT_EQ(tie, Tie::kv);
  EXPECT_TRUE(parse_name("all", 3, &tie));
  EXPECT_EQ(tie, Tie::all);
}

}  // namespace
}  // namespace ioattn
