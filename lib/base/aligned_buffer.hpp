#pragma once

#include <cstddef>
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
  explicit AlignedBuffer(std::size_t bytes)
      : data_(bytes == 0 ? nullptr
                         : ::operator new (bytes, std::align_val_t{alignment}, std::nothrow)) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() {
    if (data_ != nullptr) ::operator delete (data_, std::align_val_t{alignment}, std::nothrow);
  }

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace ioattn
