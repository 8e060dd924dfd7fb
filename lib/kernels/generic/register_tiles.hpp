#pragma once

#include <algorithm>

#include "kernels/generic/exponential.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/generic/rows_fetcher.hpp"
#include "kernels/generic/tile_work.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/product_order.hpp"

// Register tiles of a product, over a vector type V. See scalar_vector.hpp about the anonymous
// namespace.
namespace ioattn::kernels {
namespace {

// The terms of a product one by one, as V::value_type.
template <class V>
struct SingleTerms {
  using Word = typename V::value_type;
  using Vector = V;
  static constexpr bool can_scale = false;
  static constexpr bool columns_of_a_fetch = true;
  static constexpr bool cuts_columns = false;
  static IOATTN_INLINE V splat(Word x) { return V::splat(x); }
  static IOATTN_INLINE V load(const Word* p) { return V::load(p); }
  static IOATTN_INLINE V multiply_add(V a, V b, V sum) { return V::fma(a, b, sum); }
  static IOATTN_INLINE V exp(V x) { return exponential(x); }
};

// The same for vectors of which C may have the first columns alone.
template <class V>
struct CutTerms : SingleTerms<V> {
  static constexpr bool cuts_columns = true;
};

// Tiles of sums in registers: rows by `width` vectors of V, which are some of a panel of columns,
// `vectors` wide, all of it, or two panels.
template <class V, int vectors, class Terms>
struct RegisterTiles {
  using Vector = V;
  using T = typename V::value_type;
  using Word = typename Terms::Word;

  // What becomes of the accumulators of a whole tile. Whatever else a Product asks for is done to
  // its plain sums, with the same operations in the same order; exp is among it, because its
  // constants would take the registers of the accumulators.
  enum class Finish {
    store,      // C = AB
    add,        // C += AB
    scale_add,  // C = row_scale C + AB
    gradient_lane,
    gradient_row,
  };

  // Whether sums of more terms than are added at once are two that end in registers: these cannot
  // take C block by block.
  template <Finish finish>
  static constexpr bool may_be_cut =
      finish == Finish::gradient_lane || finish == Finish::gradient_row;

  // Tiles one below the other.
  struct Strip {
    const Word* a;
    index_t a_row, a_depth;
    const Word* b;
    index_t b_panel, b_row;
    index_t depth;
    T* c;
    index_t c_panel, c_row;
    const T* lane;
    const T* row;
    const T* row_scale;
    T scale;
    const Word* beside;
    index_t beside_row;
    RowsFetcher* fetcher;  // null: nothing is fetched
    index_t columns;       // of C, if Terms cuts them
  };

  template <int rows, int width = vectors>
  struct Accumulators {
    V value[rows][width];
  };

  // In a cache line.
  static constexpr index_t line = 64 / sizeof(Word);
  static constexpr int line_vectors = std::max<int>(1, 64 / static_cast<int>(V::lanes * sizeof(T)));

  // Of vector v of a tile, in B or C.
  static constexpr index_t offset_of(int v, index_t panel) {
    return v / vectors * panel + v % vectors * V::lanes;
  }

  // So that the compiler steps a pointer instead of keeping every multiple of its step in a
  // register or, as those run out, in memory.
  template <class P>
  static IOATTN_INLINE void step(P* pointer, index_t by) {
    *pointer += by;
    __asm__ volatile("" : "+r"(*pointer));
  }

  // Rows of A at one term: adjacent if `a_unit_row` (a_row = 1), else their terms are.
  template <int rows, bool a_unit_row>
  struct RowsOfA {
    static constexpr int half = a_unit_row ? rows : std::min(rows, 4);
    const Word* low;
    const Word* high;
    index_t row_step;

    RowsOfA(const Word* a, index_t a_row) : low(a), high(a + half * a_row), row_step(a_row) {}
    Word at(int i) const {
      if (a_unit_row) return low[i];
      return i < half ? low[i * row_step] : high[(i - half) * row_step];
    }
    void move(index_t by) {
      step(&low, by);
      if (half < rows) step(&high, by);
    }
  };

  template <int rows, int width, bool a_unit_row>
  static IOATTN_INLINE void add_term(const RowsOfA<rows, a_unit_row>& a, const Word* b,
                                     index_t b_panel, Accumulators<rows, width>& acc) {
    typename Terms::Vector lane[width];
#pragma GCC unroll 4
    for (int v = 0; v < width; ++v) lane[v] = Terms::load(b + offset_of(v, b_panel));
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto scalar = Terms::splat(a.at(i));
#pragma GCC unroll 4
      for (int v = 0; v < width; ++v)
        acc.value[i][v] = Terms::multiply_add(scalar, lane[v], acc.value[i][v]);
    }
  }

  // A line of each row of the next tile, and of those beside this one.
  template <int rows>
  static IOATTN_INLINE void prefetch_line(const Word* a, index_t a_row, const Word* beside,
                                          index_t beside_row) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      __builtin_prefetch(a);
      __builtin_prefetch(beside, 0, 2);
      step(&a, a_row);
      step(&beside, beside_row);
    }
  }

  // Adds `depth` terms, and moves b behind them. Unrolled by hand: g++ would put the terms that are
  // left before the loop and spill accumulators there.
  template <int rows, int width, bool a_unit_row>
  static IOATTN_INLINE void add_terms(const Strip& s, const Word* first_a, const Word* beside,
                                      index_t depth, const Word** b,
                                      Accumulators<rows, width>& acc) {
    constexpr int unroll = 2;
    RowsOfA<rows, a_unit_row> a(first_a, s.a_row);
    const index_t a_step = a_unit_row ? s.a_depth : 1;
    const index_t b_panel = s.b_panel, b_row = s.b_row;
    for (; depth >= unroll; depth -= unroll) {
      if (!a_unit_row && beside != nullptr && depth % line < unroll) {
        prefetch_line<rows>(a.low + rows * s.a_row, s.a_row, beside, s.beside_row);
        beside += line;
      }
#pragma GCC unroll 2
      for (int u = 0; u < unroll; ++u) {
        add_term<rows, width, a_unit_row>(a, *b, b_panel, acc);
        a.move(a_step);
        step(b, b_row);
        __asm__ volatile("" ::: "memory");  // keeps the loads of a term together
      }
    }
#pragma GCC unroll 1
    for (; depth > 0; --depth) {
      add_term<rows, width, a_unit_row>(a, *b, b_panel, acc);
      a.move(a_step);
      step(b, b_row);
    }
  }

  // Terms between two steps of a fetcher, which has its own in memory: there are no registers for
  // it.
  static constexpr index_t terms_a_step = 4;

  template <int rows, int width, bool a_unit_row>
  static IOATTN_INLINE void add_terms_fetching(const Strip& s, const Word* first_a, index_t depth,
                                               const Word** b, Accumulators<rows, width>& acc) {
    const index_t a_step = terms_a_step * (a_unit_row ? s.a_depth : 1);
    for (; depth >= terms_a_step; depth -= terms_a_step) {
      s.fetcher->step();
      add_terms<rows, width, a_unit_row>(s, first_a, nullptr, terms_a_step, b, acc);
      step(&first_a, a_step);
    }
    add_terms<rows, width, a_unit_row>(s, first_a, nullptr, depth, b, acc);
  }

  // Terms whose vectors of B find registers beside the sums, one of A and one to spare.
  template <int rows, int width>
  static constexpr int held_terms = std::clamp((V::registers - rows * width - 2) / width, 1, 4);

  static IOATTN_INLINE V load(const T* c, index_t columns) {
    if constexpr (Terms::cuts_columns) {
      return V::load_first(c, columns);
    } else {
      return V::load(c);
    }
  }
  static IOATTN_INLINE void store(V x, T* c, index_t columns) {
    if constexpr (Terms::cuts_columns) {
      x.store_first(c, columns);
    } else {
      x.store(c);
    }
  }

  template <Finish finish>
  static IOATTN_INLINE V finished(V sum, const T* c, index_t columns, V scale, V shift) {
    if constexpr (finish == Finish::add) return load(c, columns) + sum;
    if constexpr (finish == Finish::scale_add) return V::fma(load(c, columns), scale, sum);
    if constexpr (finish == Finish::gradient_lane) return load(c, columns) * (sum - shift);
    if constexpr (finish == Finish::gradient_row)
      return load(c, columns) * V::fma(sum, scale, shift);
    return sum;
  }

  // What is left of a product's scale for its sums, in an epilogue: those of pairs are scaled.
  static constexpr T scale_of_sums(T scale) { return Terms::can_scale ? T(1) : scale; }

  // What becomes of the sums of a row of a tile.
  template <int width, Finish finish>
  static IOATTN_INLINE void finish_row(const Strip& s, index_t row, const V (&sums)[width], T* c) {
    constexpr bool by_lane = finish == Finish::gradient_lane;
    constexpr bool by_row = finish == Finish::gradient_row;
    const T* scalar = finish == Finish::scale_add ? s.row_scale + row : &s.scale;
    // Read here, row by row: a vector that waits for the end of a tile takes the register of a sum.
    __asm__ volatile("" : "+r"(scalar));
    const V scale = V::splat(finish == Finish::scale_add ? *scalar : scale_of_sums(*scalar));
    const V row_shift = V::splat(by_row ? -s.row[row] : T(0));
#pragma GCC unroll 4
    for (int v = 0; v < width; ++v) {
      T* target = c + offset_of(v, s.c_panel);
      const V shift = by_lane ? V::load(s.lane + v * V::lanes) : row_shift;
      V sum = sums[v];
      if (Terms::can_scale && s.scale != T(1)) sum = sum * V::splat(s.scale);
      const index_t columns = s.columns - v * V::lanes;
      store(finished<finish>(sum, target, columns, scale, shift), target, columns);
    }
  }

  // Adds terms, and a stage of work behind each.
  template <int stage, int rows, int width, bool a_unit_row, class Work>
  static IOATTN_INLINE void add_term_and_stages(const Strip& s, RowsOfA<rows, a_unit_row>* a,
                                                const Word** b, Accumulators<rows, width>& acc,
                                                const Work& work, index_t piece,
                                                typename Work::State* state) {
    if constexpr (stage < Work::stages) {
      add_term<rows, width, a_unit_row>(*a, *b, s.b_panel, acc);
      a->move(a_unit_row ? s.a_depth : 1);
      step(b, s.b_row);
      work.template run<stage>(piece, state);
      __asm__ volatile("" ::: "memory");
      add_term_and_stages<stage + 1>(s, a, b, acc, work, piece, state);
    }
  }
  template <int rows, int width, bool a_unit_row, bool fetches, class Work>
  static IOATTN_INLINE void add_terms_with_work(const Strip& s, const Word* first_a,
                                                const Word* beside, index_t depth, const Word** b,
                                                Accumulators<rows, width>& acc, bool with_work,
                                                const Work& work) {
    constexpr bool has_work = Work::pieces > 0;
    const index_t terms = has_work && with_work ? Work::pieces * Work::stages : 0;
    if constexpr (has_work) {
      if (with_work) {
        RowsOfA<rows, a_unit_row> a(first_a, s.a_row);
        typename Work::State state;
#pragma GCC unroll 1
        for (index_t piece = 0; piece < Work::pieces; ++piece)
          add_term_and_stages<0>(s, &a, b, acc, work, piece, &state);
        work.end(state);
      }
    }
    first_a += terms * (a_unit_row ? s.a_depth : 1);
    if constexpr (fetches) {
      add_terms_fetching<rows, width, a_unit_row>(s, first_a, depth - terms, b, acc);
    } else {
      add_terms<rows, width, a_unit_row>(s, first_a, beside, depth - terms, b, acc);
    }
  }

  // Of fewer, some are held back for the end of a tile.
  template <int rows, int width, class Work>
  static constexpr index_t least_terms_with_work =
      Work::pieces* Work::stages + held_terms<rows, width>;

  // The first of two sums that make one.
  template <int rows, int width, bool cuts>
  struct FirstSums {
    alignas(64) T memory[rows * width * V::lanes];
    T* at = memory;

    // g++ cannot tell that sums are kept before any are added.
    IOATTN_INLINE FirstSums() { __asm__("" : "+r"(at)); }
    IOATTN_INLINE void keep(int row, const V (&sums)[width]) {
#pragma GCC unroll 4
      for (int v = 0; v < width; ++v) sums[v].store(at + (row * width + v) * V::lanes);
    }
    IOATTN_INLINE void add_to(int row, V (&sums)[width]) const {
#pragma GCC unroll 4
      for (int v = 0; v < width; ++v)
        sums[v] = V::load(at + (row * width + v) * V::lanes) + sums[v];
    }
  };
  template <int rows, int width>
  struct FirstSums<rows, width, false> {
    IOATTN_INLINE void keep(int, const V (&)[width]) {}
    IOATTN_INLINE void add_to(int, V (&)[width]) const {}
  };

  // The sums of a tile, row by row, to finish(row, sums). Each is finished before the last terms of
  // the next are added: Zen 4 takes two cycles to store a vector of 512 bits, and the stores of a
  // whole tile would hold up the multiply-adds behind them. With `may_cut` sums of more
  // than terms_at_once are two.
  template <int rows, int width, bool a_unit_row, int held = held_terms<rows, width>,
            bool fetches = false, bool may_cut = false, class FinishRow, class Work = NoWork>
  static IOATTN_INLINE void tile(const Strip& s, const Word* first_a, const FinishRow& finish,
                                 const Work& work = {}) {
    constexpr index_t most = terms_at_once<Word, T, a_unit_row>;
    constexpr index_t most_of_two = most_terms_at_once<Word, T, a_unit_row>;
    constexpr bool cuts = may_cut && most_of_two > most;
    FirstSums<rows, width, cuts> first;
    const bool are_cut = cuts && s.depth > most;
    index_t depth = are_cut ? most : s.depth;
    const Word* b = s.b;
    const Word* beside = s.beside;
    for (bool is_last = !are_cut, is_first = true;; is_last = true, is_first = false) {
      const auto end_row = [&](int row, V(&sums)[width]) {
        if (cuts && !is_last) {
          first.keep(row, sums);
        } else {
          if (cuts && !is_first) first.add_to(row, sums);
          finish(row, sums);
        }
      };
      Accumulators<rows, width> acc;
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < width; ++v) acc.value[i][v] = V::splat(T(0));
      const index_t early = depth < held ? depth : depth - held;
      add_terms_with_work<rows, width, a_unit_row, fetches>(s, first_a, beside, early, &b, acc,
                                                            is_first, work);
      first_a += early * (a_unit_row ? s.a_depth : 1);
      if (early == depth) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; ++i) end_row(i, acc.value[i]);
      } else {
        typename Terms::Vector lane[held][width];
        const Word* a[held];
#pragma GCC unroll 4
        for (int u = 0; u < held; ++u) {
          a[u] = first_a + (a_unit_row ? u * s.a_depth : 0);
#pragma GCC unroll 4
          for (int v = 0; v < width; ++v) lane[u][v] = Terms::load(b + offset_of(v, s.b_panel));
          step(&b, s.b_row);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
          for (int u = 0; u < held; ++u) {
            const auto scalar = Terms::splat(a_unit_row ? a[u][i] : a[0][u]);
#pragma GCC unroll 4
            for (int v = 0; v < width; ++v)
              acc.value[i][v] = Terms::multiply_add(scalar, lane[u][v], acc.value[i][v]);
          }
          if (!a_unit_row) step(&a[0], s.a_row);
          end_row(i, acc.value[i]);
        }
        if (cuts) first_a += held * (a_unit_row ? s.a_depth : 1);
      }
      if (!cuts || is_last) return;
      if (beside != nullptr) beside += depth;
      depth = s.depth - depth;
    }
  }

  template <int rows, int width, bool a_unit_row, Finish finish, bool fetches>
  static IOATTN_KERNEL void tiles(const Strip& strip, index_t count) {
    Strip s = strip;
    const Word* a = s.a;
    T* c = s.c;
    for (index_t row = 0; row < count * rows; row += rows) {
      T* next = c;
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < width; v += line_vectors)
          __builtin_prefetch(next + offset_of(v, s.c_panel), 1);
        step(&next, s.c_row);
      }
      if constexpr (fetches) s.fetcher->begin_tile();
      // Of `strip`, which is in memory, and not of the copy, which then would be, too.
      tile<rows, width, a_unit_row, held_terms<rows, width>, fetches, may_be_cut<finish>>(
          s, a, [&](int i, const V(&sums)[width]) {
            finish_row<width, finish>(strip, row + i, sums, c);
            step(&c, s.c_row);
          });
      step(&a, rows * s.a_row);
      if (!a_unit_row && s.beside != nullptr) s.beside += rows * s.beside_row;
    }
  }

  // One tile of `left` rows, at most `rows`.
  template <int rows, int width, bool a_unit_row, Finish finish, bool fetches>
  static void last_tile(const Strip& strip, index_t left) {
    if constexpr (rows > 0) {
      if (left == rows) {
        tiles<rows, width, a_unit_row, finish, fetches>(strip, 1);
      } else {
        last_tile<rows - 1, width, a_unit_row, finish, fetches>(strip, left);
      }
    }
  }

  template <bool a_unit_row>
  static void advance(Strip* strip, index_t rows) {
    strip->a += rows * strip->a_row;
    if (!a_unit_row && strip->beside != nullptr) strip->beside += rows * strip->beside_row;
    strip->c += rows * strip->c_row;
    if (strip->row != nullptr) strip->row += rows;
    if (strip->row_scale != nullptr) strip->row_scale += rows;
  }

  // Where every register has a sum or a vector of B, g++ finds none for a fetcher's pointer.
  template <int most, int width>
  static constexpr int most_fetching = most* width > 16 ? std::max(16 / width, 1) : most;

  // In tiles of `most_rows` rows and what is left.
  template <int most_rows, int width, bool a_unit_row, Finish finish, bool fetches>
  static void all_rows(const Strip& all, index_t rows) {
    constexpr int most = fetches ? most_fetching<most_rows, width> : most_rows;
    Strip strip = all;
    index_t whole = rows / most;
    index_t left = rows - whole * most;
    const bool shared = whole > 0 && left > 0 && left * width < least_rows * vectors;
    if (shared) --whole;
    if (whole > 0) tiles<most, width, a_unit_row, finish, fetches>(strip, whole);
    advance<a_unit_row>(&strip, whole * most);
    if (shared) {  // the last whole tile and what is left, in two
      const index_t half = (most + left + 1) / 2;
      last_tile<most, width, a_unit_row, finish, fetches>(strip, half);
      advance<a_unit_row>(&strip, half);
      left = most + left - half;
    }
    last_tile<most, width, a_unit_row, finish, fetches>(strip, left);
  }
};

}  // namespace
}  // namespace ioattn::kernels
