#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "ioattn/ioattn.h"

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

// Acts with each ISA of this CPU in IOATTN_ISA, or with the one that it names already.
template <class Act>
void for_each_isa(const Act& act) {
  if (std::getenv("IOATTN_ISA") != nullptr) return act();
  const KeptIsaVariable kept;
  for (std::int32_t i = 0; ioattn_isa(i, nullptr) != nullptr; ++i) {
    std::int32_t available = 0;
    const char* const name = ioattn_isa(i, &available);
    if (available == 0) continue;
    SCOPED_TRACE(name);
    setenv("IOATTN_ISA", name, 1);
    act();
  }
}

class IsaVariable : public testing::Test {
  KeptIsaVariable kept_;
};

}  // namespace ioattn_test
