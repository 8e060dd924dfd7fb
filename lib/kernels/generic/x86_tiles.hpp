#pragma once

#include <cstdint>

#include "kernels/generic/inlining.hpp"

// The tiles of AMX, by its instructions: as EmulatedTiles. See scalar_vector.hpp about the
// anonymous namespace.
namespace ioattn::kernels {
namespace {

// In assembly: the intrinsics of g++ 12 take digits alone for a tile, and do not tell the compiler
// that a load reads memory, which then may be written later.
struct X86Tiles {
  static constexpr index_t side = 16;

  static IOATTN_INLINE void configure() {
    Configuration all = {};
    all.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      all.row_bytes[tile] = side * word;
      all.rows[tile] = side;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(all));
  }
  static IOATTN_INLINE void release() { __asm__ volatile("tilerelease" ::: "memory"); }

  template <int tile>
  static IOATTN_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  static IOATTN_INLINE void load(const void* from, index_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride * word), "i"(tile)
                     : "memory");
  }
  // Of what will not be read again while it is in L1, which then keeps what it has.
  template <int tile>
  static IOATTN_INLINE void load_streaming(const void* from, index_t stride) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride * word), "i"(tile)
                     : "memory");
  }
  template <int tile>
  static IOATTN_INLINE void store(float* to, index_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride * word), "i"(tile)
                     : "memory");
  }
  template <int c, int a, int b>
  static IOATTN_INLINE void multiply_add() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }

 private:
  static constexpr index_t word = 4;  // bytes
  // Palette 1: at most 16 rows of 64 bytes each.
  struct alignas(64) Configuration {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);
};

}  // namespace
}  // namespace ioattn::kernels
