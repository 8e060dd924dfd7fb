#include "base/status.hpp"
#include "status_ok.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace ioattn {
namespace {

TEST(Status, DefaultAndOkCarryNoMessage) {
  for (const Status& status : {Status(), Status::ok()}) {
    EXPECT_OK(status);
    EXPECT_EQ(status.code(), StatusCode::ok);
    EXPECT_STREQ(status.message(), "");
  }
}

TEST(Status, ErrorsFormatTheirMessage) {
  const Status status = Status::error(StatusCode::size_overflow, "n = %d, %s", -3, "too much");
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(status.code(), StatusCode::size_overflow);
  EXPECT_STREQ(status.message(), "n = -3, too much");
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(StatusCode::internal); ++code) {
    const std::string name = name_of(static_cast<StatusCode>(code));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown status") << code;
    EXPECT_TRUE(names.insert(name).second) << name << " names two codes";
  }
  // If this is a code, the loop above must reach it.
  EXPECT_STREQ(name_of(static_cast<StatusCode>(static_cast<int>(StatusCode::internal) + 1)),
               "unknown status");
  EXPECT_STREQ(name_of(static_cast<StatusCode>(-1)), "unknown status");
}

TEST(Status, LongMessagesAreCutAndTerminated) {
  std::string longest;
  for (std::size_t size = 0; size < 600; ++size) {
    const std::string text(size, 'x');
    const Status status = Status::error(StatusCode::internal, "%s", text.c_str());
    const std::size_t length = std::strlen(status.message());
    ASSERT_LE(length, size);
    ASSERT_EQ(text.substr(0, length), status.message());
    ASSERT_TRUE(length == size || length == longest.size()) << "cut at " << length;
    longest = status.message();
  }
  EXPECT_LT(longest.size(), 600u);
  EXPECT_GE(longest.size(), 200u);  // room for two lines
}

TEST(Status, IsCopiedWithItsMessage) {
  Status copy;
  {
    const Status status = Status::error(StatusCode::unsupported, "%d", 42);
    copy = status;
  }
  EXPECT_EQ(copy.code(), StatusCode::unsupported);
  EXPECT_STREQ(copy.message(), "42");
}

}  // namespace
}  // namespace ioattn
