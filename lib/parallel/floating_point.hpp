#pragma once

#include <cfenv>

namespace ioattn::parallel {

// The calling thread computes in the default floating-point environment (round to nearest, no
// traps, denormals kept) until the end of the scope; then its own environment, with its exception
// flags, is back.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace ioattn::parallel
