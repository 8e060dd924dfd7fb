#pragma once

#include <cstddef>

namespace ioattn::instruments {

// Writes lines that are dirty to memory, out of every cache: an L3 that holds a modified line hands
// it back modified, and it would be written back again by who only reads it. Does nothing on CPUs
// other than x86-64 and AArch64.
inline void flush_lines([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__x86_64__) || defined(__aarch64__)
  constexpr std::size_t line = 64;
  const char* const first = static_cast<const char*>(memory);
  for (std::size_t i = 0; i < bytes; i += line) {
#if defined(__x86_64__)
    asm volatile("clflush %0" ::"m"(first[i]) : "memory");
#else
    asm volatile("dc civac, %0" ::"r"(first + i) : "memory");
#endif
  }
#if defined(__x86_64__)
  asm volatile("mfence" ::: "memory");
#else
  asm volatile("dsb ish" ::: "memory");
#endif
#endif
}

}  // namespace ioattn::instruments
