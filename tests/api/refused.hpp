#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "ioattn/ioattn.h"

namespace ioattn_test {

// The last call on this thread was refused, and its message has every one of the words.
inline void expect_refused(ioattn_status got, ioattn_status wanted,
                           std::initializer_list<const char*> words) {
  const std::string message = ioattn_last_error();
  EXPECT_EQ(got, wanted) << message;
  EXPECT_FALSE(message.empty());
  for (const char* word : words)
    EXPECT_NE(message.find(word), std::string::npos) << message << " has no " << word;
}
inline void expect_refused(ioattn_status got, ioattn_status wanted, const std::string& word) {
  expect_refused(got, wanted, {word.c_str()});
}

}  // namespace ioattn_test
