#include <gtest/gtest.h>

#include "api/checks/matrix_check.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// As many as the gradients of a batch with weights have: 8 inputs, 8 gradients, 2 weights.
TEST(MatrixCheck, RefusesMoreArraysThanItHasRoomFor) {
  const float element = 0;
  api::MatrixCheck check;
  for (int i = 0; i < 18; ++i) check.input<float>("input", {&element, 1, 1, 1}, 1, 1);
  EXPECT_OK(check.status());
  check.input<float>("the last", {&element, 1, 1, 1}, 1, 1);
  EXPECT_EQ(check.status().code(), StatusCode::internal);
  EXPECT_STREQ(check.status().message(), "the last: more arrays than a call can have");
}

}  // namespace
}  // namespace ioattn_test
