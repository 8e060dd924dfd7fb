#pragma once

#include <algorithm>

#include "base/isa.hpp"
#include "plan/blocks/product_blocks.hpp"

// What estimates of passes by pairs of 16-bit terms share. Times are in multiply-adds of f32.
namespace ioattn::plan {

// Multiply-adds that take as long as one word of a stream into its panel, transposed or not: every
// word that is read takes that way. With tiles of AMX, of pairs: 5 to 7 at d = 64, 11 to 15 at
// 1024.
constexpr double fma_per_packed_word(Isa isa) { return multiplies_tiles(isa) ? 20 : 8; }

// Multiply-adds in the time of one of f32, within whole passes: tiles of AMX make 15 times as many
// by themselves, but wait for their operands.
constexpr double product_speed(Isa isa) {
  return multiplies_tiles(isa) ? 8 : multiplies_pairs(isa) ? 2 : 1;
}
// Words that move in the time of one of f32.
constexpr double word_speed(Isa isa) { return multiplies_pairs(isa) ? 2 : 1; }

// Of a sum over so many words, which are pairs where an ISA takes such: a tile of sums of AMX
// starts and ends in the time of 64 words, every 256 (TileProduct).
inline double word_efficiency(Isa isa, index_t terms) {
  const index_t words = multiplies_pairs(isa) ? ceil_div(terms, 2) : terms;
  if (!multiplies_tiles(isa)) return efficiency(words);
  const auto some = static_cast<double>(std::min<index_t>(words, 256));
  return some / (some + 64);
}

}  // namespace ioattn::plan
