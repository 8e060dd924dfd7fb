#pragma once

#include <cstddef>

#include "base/aligned_buffer.hpp"
#include "base/checked_size.hpp"
#include "base/status.hpp"

namespace ioattn::schedules {

// A place in a workspace that is laid out before it is allocated.
template <class T>
struct Slot {
  index_t offset = 0;
  index_t count = 0;
  T* in(void* workspace) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
  }
};

// Collects the buffers of a schedule; every slot starts on its own cache line pair.
class WorkspaceLayout {
 public:
  template <class T>
  Slot<T> add(index_t count) {
    const Slot<T> slot{bytes_.value(), count};
    const CheckedSize size = CheckedSize(count) * CheckedSize(index_t(sizeof(T)));
    const index_t alignment = index_t(AlignedBuffer::alignment);
    bytes_ = bytes_ + CheckedSize(size.overflow() ? 0 : round_up(size.value(), alignment));
    overflow_ = overflow_ || size.overflow() || bytes_.overflow();
    return slot;
  }

  index_t bytes() const { return bytes_.value(); }

  Status allocate(AlignedBuffer* buffer) const {
    if (overflow_) {
      return Status::error(StatusCode::size_overflow, "the workspace does not fit in 64 bits");
    }
    *buffer = AlignedBuffer(static_cast<std::size_t>(bytes()));
    if (bytes() != 0 && buffer->data() == nullptr) {
      return Status::error(StatusCode::out_of_memory, "no memory for a workspace of %lld bytes",
                           static_cast<long long>(bytes()));
    }
    return Status::ok();
  }

 private:
  CheckedSize bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace ioattn::schedules
