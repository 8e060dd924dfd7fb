#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "base/types.hpp"

namespace ioattn {

// Uninitialised memory, aligned to a cache line pair so that no two owners share a line. An empty
// buffer after a request for more than zero bytes means that the allocation failed.
class AlignedBuffer {
 public:
  static constexpr std::size_t alignment = 128;

  AlignedBuffer() = default;
  // Aligned here: for aligned memory glibc 2.36 asks its heap for more than what was given back a
  // call ago, so that every call would run in new pages.
  explicit AlignedBuffer(std::size_t bytes) {
    constexpr std::size_t slack = alignment - 1;
    if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() - slack) return;
    memory_ = ::operator new(bytes + slack, std::nothrow);
    if (memory_ == nullptr) return;
    const auto address = reinterpret_cast<std::uintptr_t>(memory_);
    data_ = static_cast<std::byte*>(memory_) + (alignment - address % alignment) % alignment;
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        data_(std::exchange(other.data_, nullptr)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() {
    if (memory_ != nullptr) ::operator delete(memory_, std::nothrow);
  }

  void* data() const { return data_; }

 private:
  void* memory_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace ioattn
