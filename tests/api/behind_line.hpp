#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ioattn_test {

// An array whose first element is so many elements behind a cache line.
template <class T>
class BehindLine {
 public:
  BehindLine(const std::vector<T>& values, std::size_t gap) : memory_(values.size() + 2 * line) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = memory_.data() + (64 - begin % 64) % 64 / sizeof(T) + gap;
    std::copy(values.begin(), values.end(), first_);
  }
  const T* data() const { return first_; }

 private:
  static constexpr std::size_t line = 64 / sizeof(T);
  std::vector<T> memory_;
  T* first_;
};

}  // namespace ioattn_test
