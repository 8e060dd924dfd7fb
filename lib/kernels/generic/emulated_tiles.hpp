#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/generic/inlining.hpp"

// The eight tiles of AMX, and what its instructions make of them, in scalar code: for tests of what
// is built on them, on every CPU. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Every tile is of `side` rows of `side` words of 32 bits. Strides count words. As on a CPU tiles
// belong to a thread, and it is a fault to touch one that is not configured; that they are
// configured twice is a fault here alone.
struct EmulatedTiles {
  static constexpr index_t side = 16;

  static void configure() {
    fault_unless(!state().configured);
    state() = {};
    state().configured = true;
  }
  static void release() {
    fault_unless(state().configured);
    state() = {};
  }

  template <int tile>
  static void zero() {
    std::memset(words<tile>(), 0, sizeof(Words));
  }
  template <int tile>
  static void load(const void* from, index_t stride) {
    for (index_t i = 0; i < side; ++i)
      std::memcpy(words<tile>()[i], static_cast<const Word*>(from) + i * stride, row_bytes);
  }
  template <int tile>
  static void load_streaming(const void* from, index_t stride) {
    load<tile>(from, stride);
  }
  template <int tile>
  static void store(float* to, index_t stride) {
    for (index_t i = 0; i < side; ++i) std::memcpy(to + i * stride, words<tile>()[i], row_bytes);
  }

  // TDPBF16PS: C += A B, words of A and B are pairs of bf16. The first terms of the pairs make one
  // sum, by multiply-adds in ascending order, the second terms another one; both are added, then
  // that to C.
  template <int c, int a, int b>
  static void multiply_add() {
    multiply_add(words<c>(), words<a>(), words<b>());
  }

 private:
  struct __attribute__((may_alias)) Word {
    std::uint32_t bits;
  };
  static constexpr std::size_t word = sizeof(Word), row_bytes = side * word;
  using Words = std::uint32_t[side][side];
  struct State {
    bool configured;
    Words tiles[8];
  };
  static State& state() {
    static thread_local State of_thread;
    return of_thread;
  }
  static void fault_unless(bool good) {
    if (!good) __builtin_trap();
  }
  template <int tile>
  static Words& words() {
    fault_unless(state().configured);
    return state().tiles[tile];
  }

  // A call: kernels would be most of what there is to compile, with its copies in them.
  static __attribute__((noinline)) void multiply_add(Words& c, const Words& a, const Words& b) {
    double y[side][2][side];  // terms of B
    for (index_t q = 0; q < side; ++q)
      for (index_t j = 0; j < side; ++j) {
        y[q][0][j] = first(b[q][j]);
        y[q][1][j] = second(b[q][j]);
      }
    for (index_t i = 0; i < side; ++i) {
      float sums[2][side] = {};
      for (index_t q = 0; q < side; ++q) {
        const double x[2] = {first(a[i][q]), second(a[i][q])};
        for (int k = 0; k < 2; ++k)
          for (index_t j = 0; j < side; ++j)
            sums[k][j] = flushed(x[k] * y[q][k][j] + double(sums[k][j]));
      }
      for (index_t j = 0; j < side; ++j) {
        const float both = flushed(double(sums[0][j]) + double(sums[1][j]));
        const float sum = flushed(double(number(c[i][j])) + double(both));
        std::memcpy(&c[i][j], &sum, word);
      }
    }
  }

  // Rounded once to float, to nearest even; what is tiny even so is 0. A double holds the product
  // of two bf16, and its sum with a float is far from where rounding twice would matter.
  static IOATTN_INLINE float flushed(double x) {
    constexpr double least = 0x1p-126 - 0x1p-151;  // what rounds to a normal number
    return static_cast<float>(__builtin_fabs(x) < least ? __builtin_copysign(0., x) : x);
  }
  static IOATTN_INLINE float number(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, word);
    return flushed(double(x));
  }
  static IOATTN_INLINE float first(std::uint32_t pair) { return number(pair << 16); }
  static IOATTN_INLINE float second(std::uint32_t pair) { return number(pair & 0xffff0000u); }
};

}  // namespace
}  // namespace ioattn::kernels
