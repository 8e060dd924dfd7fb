#pragma once

#include "base/types.hpp"

namespace ioattn {

// A size that remembers whether computing it left the 64-bit range.
class CheckedSize {
 public:
  constexpr CheckedSize(index_t value) : value_(value) {}  // NOLINT: sizes convert freely

  constexpr CheckedSize operator*(CheckedSize other) const {
    CheckedSize result(0);
    result.overflow_ = overflow_ || other.overflow_ ||
                       __builtin_mul_overflow(value_, other.value_, &result.value_);
    return result;
  }
  constexpr CheckedSize operator+(CheckedSize other) const {
    CheckedSize result(0);
    result.overflow_ = overflow_ || other.overflow_ ||
                       __builtin_add_overflow(value_, other.value_, &result.value_);
    return result;
  }

  constexpr bool overflow() const { return overflow_; }
  constexpr index_t value() const { return value_; }

 private:
  index_t value_;
  bool overflow_ = false;
};

constexpr CheckedSize round_up(CheckedSize a, index_t b) {
  const CheckedSize beyond = a + (b - 1);
  return beyond + -(beyond.value() % b);
}

}  // namespace ioattn
