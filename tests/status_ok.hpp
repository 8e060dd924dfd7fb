#pragma once

#include <gtest/gtest.h>

#include "base/status.hpp"

namespace ioattn_test {

inline testing::AssertionResult is_ok(const char* expression, const ioattn::Status& status) {
  if (status.is_ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << expression << ": " << ioattn::name_of(status.code()) << ": " << status.message();
}
// wisdom::Verdict, which some tests have nothing to do with.
template <class Verdict>
testing::AssertionResult is_ok(const char* expression, const Verdict& verdict) {
  if (verdict.is_ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << expression << ": " << name_of(verdict.reason) << ": " << verdict.message;
}

}  // namespace ioattn_test

// Of a Status or a Verdict, whose message a failure tells.
#define EXPECT_OK(status) EXPECT_PRED_FORMAT1(::ioattn_test::is_ok, status)
#define ASSERT_OK(status) ASSERT_PRED_FORMAT1(::ioattn_test::is_ok, status)
