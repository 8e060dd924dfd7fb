#pragma once

#include "kernels/generic/register_tiles.hpp"

// exp(scale A B - row) straight from the registers that A B is made in, over a vector type V that
// looks up powers. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// The sums of a tile of rows by `width` vectors wait in L1 and become exponentials while the next
// ones are made.
template <class V, class Tiles, int rows, int width>
struct RegisterExponentials {
  using T = typename V::value_type;
  using Strip = typename Tiles::Strip;
  using Exp = kernels::Exp<V>;
  static constexpr index_t cols = width * V::lanes;

  // Half an exponential behind each term: more at a time would find no registers between two
  // stages.
  struct Waiting {
    static constexpr index_t pieces = rows, stages = 2 * width;
    using State = Exp;
    const T* sums;
    const T* shift;
    T scale;
    T* to;
    index_t row, panel;

    template <int stage>
    IOATTN_INLINE void run(index_t i, State* exp) const {
      constexpr int v = stage / 2;
      const auto& c = read_again(Exp::constants);
      T* const target = to + i * row + Tiles::offset_of(v, panel);
      if constexpr (stage % 2 == 0) {
        __builtin_prefetch(target, 1);
        const V sum = V::load(sums + i * cols + v * V::lanes);
        exp->split(V::fma(sum, V::splat(scale), V::splat(-shift[i])), c);
      } else {
        exp->begin_tail(c);
        exp->result(c).store(target);
      }
    }
    IOATTN_INLINE void end(const State&) const {}
    IOATTN_INLINE void advance() {
      Tiles::step(&to, rows * row);
      shift += rows;
    }
  };

  static constexpr index_t least_terms =
      Tiles::template least_terms_with_work<rows, width, Waiting>;
  // B's panels of more leave no room in a small L1, and exp matters little.
  static constexpr index_t most_terms = 96;
  static bool takes(index_t terms) { return terms >= least_terms && terms <= most_terms; }

  static IOATTN_KERNEL void all_rows(const Strip& strip, index_t count) {
    alignas(64) T sums[rows * cols];
    Strip s = strip;
    s.beside = nullptr;  // rows are fetched by `beyond`
    const auto store = [&](int i, const V(&of_row)[width]) {
#pragma GCC unroll 4
      for (int v = 0; v < width; ++v) of_row[v].store(sums + i * cols + v * V::lanes);
    };
    const T* a = s.a;
    Waiting waiting = {sums, s.row, s.scale, s.c, s.c_row, s.c_panel};
    RowsBeyond<T, rows> beyond = {a + rows * s.a_row, strip.beside, s.a_row, strip.beside_row,
                                  s.depth};
    index_t done = 0;
    for (; done + rows <= count; done += rows) {
      beyond.fetch();
      if (done == 0) {
        Tiles::template tile<rows, width, false>(s, a, store);
      } else {
        Tiles::template tile<rows, width, false>(s, a, store, waiting);
        waiting.advance();
      }
      Tiles::step(&a, rows * s.a_row);
    }
    if (done > 0) {
      run_alone(waiting, rows);
      waiting.advance();
    }
    if (done == count) return;
    s.a = a;
    s.c = sums;
    s.c_row = cols;
    s.c_panel = Tiles::panel_cols;
    Tiles::template all_rows<rows, width, false, Tiles::Finish::store>(s, count - done);
    run_alone(waiting, count - done);
  }
};

}  // namespace
}  // namespace ioattn::kernels
