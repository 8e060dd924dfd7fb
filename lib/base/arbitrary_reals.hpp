#pragma once

#include <cstdint>

namespace ioattn {

// Numbers from -1 to 1 that follow no pattern, the same in every run: what is timed or traced is
// computed from them. Knuth's linear congruential generator of MMIX, its upper 53 bits.
class ArbitraryReals {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-52 - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

}  // namespace ioattn
