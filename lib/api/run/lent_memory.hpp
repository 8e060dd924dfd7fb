#pragma once

#include <algorithm>
#include <cstdint>

#include "schedules/memory/workspace.hpp"

namespace ioattn::api {

// Lent memory starts at any address, slots at multiples of the alignment.
constexpr index_t with_slack(index_t bytes) {
  return bytes == 0 ? 0 : bytes + index_t(AlignedBuffer::alignment) - 1;
}

// The aligned part of lent memory, or null where none is lent.
class Lent {
 public:
  Lent(void* memory, index_t bytes) {
    if (memory == nullptr) return;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const auto alignment = std::uintptr_t(AlignedBuffer::alignment);
    const index_t skipped = index_t((alignment - address) % alignment);
    memory_ = schedules::CallerMemory(static_cast<std::byte*>(memory) + skipped,
                                      std::max<index_t>(bytes - skipped, 0));
    lent_ = true;
  }
  schedules::CallerMemory* get() { return lent_ ? &memory_ : nullptr; }

 private:
  schedules::CallerMemory memory_;
  bool lent_ = false;
};

// A pass without any memory refuses before it touches an operand, and has told what it needs.
inline Status workspace_told(const Status& refusal, const schedules::CallerMemory& memory,
                             index_t* bytes) {
  *bytes = memory.needed();
  return refusal.code() == StatusCode::out_of_memory ? Status::ok() : refusal;
}

}  // namespace ioattn::api
