#pragma once

#include "base/types.hpp"

namespace ioattn {

// Instruction sets that kernels are written for. The machine finds which the CPU has; the kernel
// registry gets them as bits.
enum class Isa : std::uint8_t {
  scalar,
  avx2,           // and FMA, F16C
  avx512,         // F, BW, CD, DQ, VL
  neon,           // Advanced SIMD of AArch64
  avx512_bf16,    // avx512 and products of pairs of bf16 terms
  emulated_bf16,  // the same products in scalar code, for tests: only on request
  avx512_amx,     // avx512_bf16 and products of tiles of pairs, AMX-BF16, if the kernel grants them
  emulated_amx,   // the same products in scalar code, for tests: only on request
};
constexpr int isa_count = 8;
constexpr bool is_emulated(Isa isa) {
  return isa == Isa::emulated_bf16 || isa == Isa::emulated_amx;
}
// Whether its products are of pairs of 16-bit terms as they are stored, not of f32. Numbers of
// other types have kernels of another ISA.
constexpr bool multiplies_pairs(Isa isa) {
  return isa == Isa::avx512_bf16 || isa == Isa::avx512_amx || is_emulated(isa);
}
// By tiles of them.
constexpr bool multiplies_tiles(Isa isa) {
  return isa == Isa::avx512_amx || isa == Isa::emulated_amx;
}
const char* name_of(Isa isa);
bool parse_isa(std::string_view name, Isa* isa);

// The register tile of a product kernel: rows are scalars that are broadcast, columns are SIMD
// lanes.
struct TileShape {
  Isa isa = Isa::scalar;
  int rows = 4;
  int cols = 4;

  // Columns that vectors compute of a product of so many: half of a last panel, where that is
  // enough, or all of it.
  constexpr index_t computed(index_t columns) const {
    const index_t half = cols > 1 ? cols / 2 : 1, whole = round_down(columns, cols);
    return columns == whole ? whole : whole + (columns - whole <= half ? half : cols);
  }
  // So many columns at most are few: softmax has rows for lanes then (KernelTable::few_weights).
  constexpr index_t few() const { return cols > 8 ? cols / 8 : 1; }

  bool operator==(const TileShape&) const = default;
};

class IsaSet {
 public:
  constexpr IsaSet() = default;
  constexpr void add(Isa isa) { bits_ |= bit(isa); }
  constexpr void remove(Isa isa) { bits_ &= ~bit(isa); }
  constexpr bool has(Isa isa) const { return (bits_ & bit(isa)) != 0; }
  bool operator==(const IsaSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Isa isa) { return 1u << static_cast<int>(isa); }
  // What needs no CPU is always there.
  std::uint32_t bits_ = bit(Isa::scalar) | bit(Isa::emulated_bf16) | bit(Isa::emulated_amx);
};

}  // namespace ioattn
