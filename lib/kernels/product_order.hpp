#pragma once

#include <type_traits>

#include "base/sum_length.hpp"

// The order in which kernels add the terms of a product, for them and for who traces what they
// touch.
namespace ioattn::kernels {

// Terms of a sum in registers, of Words that are added up as T. A product that needs its sums
// before C has them, for softmax, makes two of them in registers, of `most_terms_at_once` at most.
template <class Word, class T, bool a_unit_row>
constexpr index_t terms_at_once = std::is_same_v<Word, T> ? single_terms_per_accumulator<T>
                                  : a_unit_row            ? adjacent_terms_per_accumulator
                                                          : terms_per_accumulator;
template <class Word, class T, bool a_unit_row>
constexpr index_t most_terms_at_once = std::is_same_v<Word, T> ? index_t(128)
                                                               : terms_at_once<Word, T, a_unit_row>;

// Whether C takes block after block of terms, and an epilogue is done with the last: plain sums and
// scores that are added to what C has. Other epilogues wait for a sum that is made elsewhere.
// Inline always: no object of kernels provides code to another.
template <class Product>
[[gnu::always_inline]] constexpr bool adds_blocks_to_c(const Product& p) {
  using E = decltype(p.epilogue);
  return p.epilogue == E::none || (p.epilogue == E::exp && p.accumulate && p.scale == 1);
}

// Tiles below one another whose sums are kept in L1 while blocks of terms are added to them.
constexpr index_t tiles_of_sums = 16;

// Rows of a tile half a panel wide: sums enough to hide the latency of an addition. A tile that has
// fewer than those of least_rows of a whole panel has too few, and takes some of the one before.
constexpr int narrow_rows = 8, least_rows = 5;

}  // namespace ioattn::kernels
