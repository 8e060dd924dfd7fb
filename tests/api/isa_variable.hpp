#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ioattn_test {

// IOATTN_ISA is read by every call: a test may set it, and what it was comes back.
class KeptIsaVariable {
 public:
  KeptIsaVariable() {
    const char* value = std::getenv("IOATTN_ISA");
    if (value != nullptr) before_ = value;
  }
  KeptIsaVariable(const KeptIsaVariable&) = delete;
  KeptIsaVariable& operator=(const KeptIsaVariable&) = delete;
  ~KeptIsaVariable() {
    if (before_.empty()) {
      unsetenv("IOATTN_ISA");
    } else {
      setenv("IOATTN_ISA", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

class IsaVariable : public testing::Test {
  KeptIsaVariable kept_;
};

}  // namespace ioattn_test
