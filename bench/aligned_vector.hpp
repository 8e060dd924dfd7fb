#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace ioattn::bench {

// Begins with a cache line, as the tensors of frameworks do.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), line));
  }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, line); }
  template <class U>
  bool operator==(const LineAllocator<U>&) const {
    return true;
  }
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace ioattn::bench
