#pragma once

#include <cstddef>
#include <utility>

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

// The memory of a pass while it runs: its own, or lent by the caller.
class WorkspaceMemory {
 public:
  WorkspaceMemory() = default;
  explicit WorkspaceMemory(AlignedBuffer owned) : owned_(std::move(owned)), data_(owned_.data()) {}
  explicit WorkspaceMemory(void* lent) : data_(lent) {}
  void* data() const { return data_; }

 private:
  AlignedBuffer owned_;
  void* data_ = nullptr;
};

// Memory that the caller lends to one pass, aligned to AlignedBuffer::alignment. Without any it
// only tells how much the pass needs: asking fails, before an output is touched.
class CallerMemory {
 public:
  CallerMemory() = default;
  CallerMemory(void* memory, index_t bytes) : memory_(memory), bytes_(bytes), lends_(true) {}

  // The next bytes, a multiple of the alignment; they are not given back.
  Status lend(index_t bytes, WorkspaceMemory* memory) {
    const index_t used = needed_;
    needed_ += bytes;
    *memory = WorkspaceMemory(this);  // not null, as it would be; nothing is read or written there
    if (!lends_ || needed_ > bytes_) {
      return Status::error(StatusCode::out_of_memory,
                           "a workspace of %lld bytes is too small: %lld are needed",
                           static_cast<long long>(bytes_), static_cast<long long>(needed_));
    }
    *memory = WorkspaceMemory(static_cast<std::byte*>(memory_) + used);
    return Status::ok();
  }
  bool only_tells() const { return !lends_; }
  index_t needed() const { return needed_; }

 private:
  void* memory_ = nullptr;
  index_t bytes_ = 0;
  bool lends_ = false;
  index_t needed_ = 0;
};

// Collects the buffers of a schedule; every slot starts on its own cache line pair.
class WorkspaceLayout {
 public:
  template <class T>
  Slot<T> add(CheckedSize count) {
    const Slot<T> slot{bytes_.value(), count.value()};
    bytes_ = bytes_ + round_up(count * index_t(sizeof(T)), index_t(AlignedBuffer::alignment));
    return slot;
  }

  index_t bytes() const { return bytes_.value(); }
  CheckedSize checked_bytes() const { return bytes_; }

  Status allocate(CallerMemory* caller, WorkspaceMemory* memory) const {
    if (bytes_.overflow()) {
      return Status::error(StatusCode::size_overflow, "the workspace does not fit in 64 bits");
    }
    if (caller != nullptr) return caller->lend(bytes(), memory);
    *memory = WorkspaceMemory(AlignedBuffer(static_cast<std::size_t>(bytes())));
    if (bytes() != 0 && memory->data() == nullptr) {
      return Status::error(StatusCode::out_of_memory, "no memory for a workspace of %lld bytes",
                           static_cast<long long>(bytes()));
    }
    return Status::ok();
  }

 private:
  CheckedSize bytes_ = 0;
};

// What every worker of a pass has for itself: as much for each, one after the other in the memory
// of the pass.
class WorkerMemory {
 public:
  // A place in the memory of any worker.
  template <class T>
  Slot<T> add(CheckedSize count) {
    return each_.add<T>(count);
  }
  // Once it is all laid out.
  void add_to(WorkspaceLayout* layout, int workers) {
    all_ = layout->add<std::byte>(each_.checked_bytes() * workers);
  }
  void* of(int worker, void* workspace) const {
    return all_.in(workspace) + worker * each_.bytes();
  }

 private:
  WorkspaceLayout each_;
  Slot<std::byte> all_;
};

}  // namespace ioattn::schedules
