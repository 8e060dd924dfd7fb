#pragma once

#include "base/types.hpp"
#include "kernels/generic/inlining.hpp"

// What else is done while register tiles are made. See scalar_vector.hpp about the anonymous
// namespace.
namespace ioattn::kernels {
namespace {

// Nothing, or `pieces` of work, each in stages, one behind each term from a tile's first on. A CPU
// looks only so far ahead for multiply-adds that do not wait.
struct NoWork {
  static constexpr index_t pieces = 0, stages = 0;
};

template <int stage, class Work>
IOATTN_INLINE void run_from(const Work& work, index_t piece, typename Work::State* state) {
  if constexpr (stage < Work::stages) {
    work.template run<stage>(piece, state);
    run_from<stage + 1>(work, piece, state);
  }
}

// Some pieces, beside nothing.
template <class Work>
IOATTN_INLINE void run_alone(const Work& work, index_t pieces) {
  typename Work::State state;
  for (index_t piece = 0; piece < pieces; ++piece) run_from<0>(work, piece, &state);
  work.end(state);
}

// As many rows of A as a tile's, and others beside them, that are read next and come from beyond
// L2.
template <class Word, int rows_of_tile>
struct RowsBeyond {
  const Word* rows;
  const Word* beside;  // null: they do not
  index_t row, beside_row, terms;

  IOATTN_INLINE void fetch() {
    if (beside == nullptr) return;
    constexpr index_t line = 64 / sizeof(Word);
    for (int i = 0; i < rows_of_tile; ++i, rows += row, beside += beside_row)
      for (index_t k = 0; k < terms; k += line) {
        __builtin_prefetch(rows + k);
        __builtin_prefetch(beside + k, 0, 2);
      }
  }
};

// Constants that are read each time: beside a product there are no registers for them.
template <class Constants>
IOATTN_INLINE const Constants& read_again(const Constants& constants) {
  const Constants* c = &constants;
  __asm__ volatile("" : "+r"(c));
  return *c;
}

}  // namespace
}  // namespace ioattn::kernels
