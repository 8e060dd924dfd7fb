#pragma once

#include <cfenv>

namespace ioattn::parallel {

// The calling thread computes in the default floating-point environment (round to nearest, no
// traps, denormals kept) until the end of the scope; then its own environment, with its exception
// flags, is back.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

#if defined(__x86_64__)
  // Of float and double alone: to load that of long double, which nothing here computes in, too,
  // takes a tenth of a short call.
  DefaultFloatingPoint() : saved_(__builtin_ia32_stmxcsr()) {
    constexpr unsigned all_masked = 0x1f80;
    __builtin_ia32_ldmxcsr(all_masked);
  }
  ~DefaultFloatingPoint() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  unsigned saved_;
#else
  DefaultFloatingPoint() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
};

}  // namespace ioattn::parallel
