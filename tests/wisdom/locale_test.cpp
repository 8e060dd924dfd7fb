// Numbers of wisdom where decimal points are more than a byte, as in Pashto's locale: the parser
// would take the first byte alone. That locale need not be installed: this program has its
// localeconv().

#include <gtest/gtest.h>

#include <clocale>

#include "status_ok.hpp"
#include "wisdom/samples.hpp"
#include "wisdom/text.hpp"

namespace {
char arabic[] = "\xd9\xab", point[] = ".", nothing[] = "";
bool is_pashto = false;
}  // namespace

extern "C" lconv* localeconv() noexcept {
  static lconv conventions = {};
  const bool of_process = uselocale(nullptr) == LC_GLOBAL_LOCALE;
  conventions.decimal_point = is_pashto && of_process ? arabic : point;
  conventions.thousands_sep = nothing;
  return &conventions;
}

namespace ioattn_test {
namespace {

TEST(WisdomText, NumbersAreThoseOfEveryLocale) {
  ioattn::wisdom::Wisdom wisdom = sample_wisdom();
  wisdom.set_unknown(R"({"volts":1.25})");
  const std::string text = to_text(wisdom);
  is_pashto = true;
  ioattn::wisdom::Wisdom read;
  const ioattn::wisdom::Verdict verdict = ioattn::wisdom::parse(text, &read);
  const std::string printed = to_text(read);
  is_pashto = false;
  ASSERT_OK(verdict) << verdict.message;
  EXPECT_EQ(printed, text);
  EXPECT_EQ(to_text(read), text);
}

}  // namespace
}  // namespace ioattn_test
