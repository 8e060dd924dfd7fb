#pragma once

#include "kernels/generic/exponential.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/kernel_table.hpp"

// The product over a vector type V. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// The terms of a product one by one, as V::value_type.
template <class V>
struct SingleTerms {
  using Word = typename V::value_type;
  using Vector = V;
  static constexpr bool can_scale = false;
  static IOATTN_INLINE V splat(Word x) { return V::splat(x); }
  static IOATTN_INLINE V load(const Word* p) { return V::load(p); }
  static IOATTN_INLINE V multiply_add(V a, V b, V sum) { return V::fma(a, b, sum); }
  static IOATTN_INLINE V exp(V x) { return exponential(x); }
};

// Calls part(p) for C += A B by equal blocks of at most so many terms; an epilogue waits for the
// whole sum, which is then made elsewhere.
template <class Product, class Part>
IOATTN_INLINE void by_terms(const Product& p, index_t most, const Part& part) {
  if (p.depth <= most || p.epilogue != Epilogue::none) {
    part(p);
    return;
  }
  const index_t count = (p.depth + most - 1) / most;
  const index_t step = (p.depth + count - 1) / count;
  Product some = p;
  for (index_t q = 0; q < p.depth; q += step) {
    some.a = p.a + q * p.a_depth;
    some.b = p.b + q * p.b_row;
    some.depth = p.depth - q < step ? p.depth - q : step;
    part(some);
    some.accumulate = true;
    some.row_scale = nullptr;
  }
}

template <class V, int max_rows, int vectors, class Terms = SingleTerms<V>>
struct ProductKernel {
  using T = typename V::value_type;
  using Word = typename Terms::Word;
  using Product = kernels::Product<T, Word>;
  static constexpr int nr = vectors * V::lanes;

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

  // Terms of a sum in registers. Where rows of A are adjacent each term has a cache line of its own
  // beside one of B: 256 of both would be all of a small L1.
  template <bool a_unit_row>
  static constexpr index_t terms_at_once =
      a_unit_row ? terms_per_accumulator / 2 : terms_per_accumulator;

  // Tiles one below the other in one panel of columns, at most terms_at_once terms.
  struct Strip {
    const Word* a;
    index_t a_row, a_depth;
    const Word* b;
    index_t b_row;
    index_t depth;
    T* c;
    index_t c_row;
    const T* lane;
    const T* row;
    const T* row_scale;
    T scale;
  };

  template <int rows>
  struct Accumulators {
    V value[rows][vectors];
  };

  template <int rows, bool a_unit_row>
  static IOATTN_INLINE void add_term(const Word* a, index_t a_stride, const Word* b,
                                     Accumulators<rows>& acc) {
    typename Terms::Vector lane[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) lane[v] = Terms::load(b + v * V::lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto scalar = Terms::splat(a_unit_row ? a[i] : a[i * a_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        acc.value[i][v] = Terms::multiply_add(scalar, lane[v], acc.value[i][v]);
    }
  }

  // `a_unit_row`: rows of A are adjacent (a_row = 1), else its terms are. Unrolled by hand: g++
  // would put the terms that are left before the loop and spill accumulators there.
  template <int rows, bool a_unit_row>
  static IOATTN_INLINE void multiply(const Word* a, index_t a_stride, const Word* b, index_t b_row,
                                     index_t depth, Accumulators<rows>& acc) {
    constexpr int unroll = 2;
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) acc.value[i][v] = V::splat(T(0));
    const index_t a_step = a_unit_row ? a_stride : 1;
    for (; depth >= unroll; depth -= unroll) {
#pragma GCC unroll 2
      for (int u = 0; u < unroll; ++u) {
        add_term<rows, a_unit_row>(a, a_stride, b, acc);
        a += a_step;
        b += b_row;
        __asm__ volatile("" ::: "memory");  // keeps the loads of a term together
      }
    }
#pragma GCC unroll 1
    for (; depth > 0; --depth) {
      add_term<rows, a_unit_row>(a, a_stride, b, acc);
      a += a_step;
      b += b_row;
    }
  }

  template <int rows>
  static IOATTN_INLINE void scale_sums(V scale, Accumulators<rows>& acc) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) acc.value[i][v] = acc.value[i][v] * scale;
  }

  template <Finish finish>
  static IOATTN_INLINE V finished(V sum, const T* c, V scale, V shift) {
    switch (finish) {
      case Finish::store: return sum;
      case Finish::add: return V::load(c) + sum;
      case Finish::scale_add: return V::fma(V::load(c), scale, sum);
      case Finish::gradient_lane:
      case Finish::gradient_row: return V::load(c) * (sum - shift);
    }
  }

  template <int rows, bool a_unit_row, Finish finish>
  static IOATTN_KERNEL void tiles(const Strip& strip, index_t count) {
    constexpr bool by_lane = finish == Finish::gradient_lane;
    constexpr bool by_row = finish == Finish::gradient_row;
    const Strip s = strip;
    const Word* a = s.a;
    T* c = s.c;
    for (index_t row = 0; row < count * rows; row += rows) {
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) __builtin_prefetch(c + i * s.c_row, 1);
      Accumulators<rows> acc;
      multiply<rows, a_unit_row>(a, a_unit_row ? s.a_depth : s.a_row, s.b, s.b_row, s.depth, acc);
      if (Terms::can_scale && s.scale != T(1)) scale_sums<rows>(V::splat(s.scale), acc);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const V scale = V::splat(finish == Finish::scale_add ? s.row_scale[row + i] : T(1));
        const V row_shift = V::splat(by_row ? s.row[row + i] : T(0));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          T* target = c + i * s.c_row + v * V::lanes;
          const V shift = by_lane ? V::load(s.lane + v * V::lanes) : row_shift;
          finished<finish>(acc.value[i][v], target, scale, shift).store(target);
        }
      }
      a += rows * s.a_row;
      c += rows * s.c_row;
    }
  }

  // One tile of `left` rows, at most `rows`.
  template <int rows, bool a_unit_row, Finish finish>
  static void last_tile(const Strip& strip, index_t left) {
    if constexpr (rows > 0) {
      if (left == rows) {
        tiles<rows, a_unit_row, finish>(strip, 1);
      } else {
        last_tile<rows - 1, a_unit_row, finish>(strip, left);
      }
    }
  }

  static void advance(Strip* strip, index_t rows) {
    strip->a += rows * strip->a_row;
    strip->c += rows * strip->c_row;
    if (strip->row != nullptr) strip->row += rows;
    if (strip->row_scale != nullptr) strip->row_scale += rows;
  }

  // A tile of fewer rows has too few sums to hide their latency.
  static constexpr int least_rows = 4;

  template <bool a_unit_row, Finish finish>
  static void all_rows(const Strip& all, index_t rows) {
    Strip strip = all;
    index_t whole = rows / max_rows;
    index_t left = rows - whole * max_rows;
    const bool shared = whole > 0 && left > 0 && left < least_rows;
    if (shared) --whole;
    if (whole > 0) tiles<max_rows, a_unit_row, finish>(strip, whole);
    advance(&strip, whole * max_rows);
    if (shared) {  // the last whole tile and what is left, in two
      const index_t half = (max_rows + left + 1) / 2;
      last_tile<max_rows, a_unit_row, finish>(strip, half);
      advance(&strip, half);
      left = max_rows + left - half;
    }
    last_tile<max_rows, a_unit_row, finish>(strip, left);
  }

  // One panel of the columns of a product.
  struct Panel {
    const Word* b;
    T* c;
    const T* lane;
    index_t columns;  // nr where C may be written that far
  };

  // Rows [first, first + rows) of C = exp(sums (+ C) - shift), or C o (sums - shift), over a whole
  // panel.
  template <Epilogue epilogue, bool shift_by_row, bool accumulate>
  static IOATTN_KERNEL void whole_sums(const Product& p, const Panel& panel, index_t first,
                                       index_t rows, const T* sums) {
    const index_t c_row = p.c_row;
    const T* row = p.row;
    T* c = panel.c;
    V shift[vectors];
    if (!shift_by_row)
      for (int v = 0; v < vectors; ++v) shift[v] = V::load(panel.lane + v * V::lanes);
    for (index_t i = first; i < first + rows; ++i, sums += nr) {
      T* target = c + i * c_row;
      __builtin_prefetch(target + 4 * c_row, 1);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        V x = V::load(sums + v * V::lanes);
        if (accumulate) x = V::load(target + v * V::lanes) + x;
        x = x - (shift_by_row ? V::splat(row[i]) : shift[v]);
        const V y = epilogue == Epilogue::exp ? Terms::exp(x) : V::load(target + v * V::lanes) * x;
        y.store(target + v * V::lanes);
      }
    }
  }

  // The same for everything that a Product can ask for.
  static IOATTN_KERNEL void any_sums(const Product& p, const Panel& panel, index_t first,
                                     index_t rows, const T* sums) {
    const bool partial = panel.columns < nr;
    const bool reads_c = p.accumulate || p.epilogue == Epilogue::gradient;
    for (index_t i = first; i < first + rows; ++i, sums += nr) {
      T* target = panel.c + i * p.c_row;
      T edge[nr] = {};
      T* out = partial ? edge : target;
      for (index_t j = 0; partial && reads_c && j < panel.columns; ++j) edge[j] = target[j];
      for (int v = 0; v < nr; v += V::lanes) {
        V x = V::load(sums + v);
        if (p.accumulate) {
          x = p.row_scale != nullptr ? V::fma(V::load(out + v), V::splat(p.row_scale[i]), x)
                                     : V::load(out + v) + x;
        }
        if (p.epilogue != Epilogue::none) {
          x = x - (p.row != nullptr ? V::splat(p.row[i]) : V::load(panel.lane + v));
          x = p.epilogue == Epilogue::exp ? Terms::exp(x) : V::load(out + v) * x;
        }
        x.store(out + v);
      }
      for (index_t j = 0; partial && j < panel.columns; ++j) target[j] = edge[j];
    }
  }

  template <Epilogue epilogue, bool accumulate>
  static void finish_whole_sums(const Product& p, const Panel& panel, index_t first, index_t rows,
                                const T* sums) {
    if (p.row != nullptr) {
      whole_sums<epilogue, true, accumulate>(p, panel, first, rows, sums);
    } else {
      whole_sums<epilogue, false, accumulate>(p, panel, first, rows, sums);
    }
  }

  static void finish_sums(const Product& p, const Panel& panel, index_t first, index_t rows,
                          const T* sums) {
    if (panel.columns < nr || p.epilogue == Epilogue::none || p.row_scale != nullptr) {
      any_sums(p, panel, first, rows, sums);
    } else if (p.epilogue == Epilogue::gradient) {
      finish_whole_sums<Epilogue::gradient, false>(p, panel, first, rows, sums);
    } else if (p.accumulate) {
      finish_whole_sums<Epilogue::exp, true>(p, panel, first, rows, sums);
    } else {
      finish_whole_sums<Epilogue::exp, false>(p, panel, first, rows, sums);
    }
  }

  // Rows whose sums are kept in L1 while blocks of terms are added to them.
  static constexpr index_t rows_of_sums = index_t(16) * max_rows;

  // A panel by way of its sums: for whatever has no Finish of its own.
  template <bool a_unit_row>
  static void by_sums(const Product& p, const Panel& panel) {
    alignas(64) T sums[rows_of_sums * nr];
    for (index_t row = 0; row < p.rows; row += rows_of_sums) {
      const index_t count = p.rows - row < rows_of_sums ? p.rows - row : rows_of_sums;
      constexpr index_t most = terms_at_once<a_unit_row>;
      for (index_t q = 0; q == 0 || q < p.depth; q += most) {
        const index_t left = p.depth - q;
        Strip strip = {};
        strip.a = p.a + row * p.a_row + q * p.a_depth;
        strip.a_row = p.a_row;
        strip.a_depth = p.a_depth;
        strip.b = panel.b + q * p.b_row;
        strip.b_row = p.b_row;
        strip.depth = left < most ? left : most;
        strip.c = sums;
        strip.c_row = nr;
        strip.scale = p.scale;
        if (q == 0) {
          all_rows<a_unit_row, Finish::store>(strip, count);
        } else {
          all_rows<a_unit_row, Finish::add>(strip, count);
        }
      }
      finish_sums(p, panel, row, count, sums);
    }
  }

  using Rows = void (*)(const Strip&, index_t);

  // What finishes the rows of a whole panel; nullptr if they go by way of their sums.
  template <bool a_unit_row>
  static Rows rows_for(const Product& p) {
    if (p.depth > terms_at_once<a_unit_row>) return nullptr;
    if (p.accumulate) {
      if (p.epilogue != Epilogue::none) return nullptr;
      return p.row_scale != nullptr ? all_rows<a_unit_row, Finish::scale_add>
                                    : all_rows<a_unit_row, Finish::add>;
    }
    if (p.epilogue == Epilogue::none) return all_rows<a_unit_row, Finish::store>;
    if constexpr (!a_unit_row) {  // score products have rows of queries or keys
      if (p.epilogue == Epilogue::gradient) {
        return p.row != nullptr ? all_rows<false, Finish::gradient_row>
                                : all_rows<false, Finish::gradient_lane>;
      }
    }
    return nullptr;
  }

  template <bool a_unit_row>
  static void all_panels(const Product& p) {
    const Rows rows = rows_for<a_unit_row>(p);
    for (index_t col = 0; col < p.cols; col += nr) {
      const index_t left = p.cols - col;
      const Panel panel = {p.b + col / nr * p.b_panel, p.c + col / nr * p.c_panel,
                           p.lane + (p.lane != nullptr ? col : 0),
                           left >= nr || p.padded ? nr : left};
      if (rows != nullptr && panel.columns == nr) {
        const Strip strip = {p.a,     p.a_row, p.a_depth,  panel.b, p.b_row,     p.depth,
                             panel.c, p.c_row, panel.lane, p.row,   p.row_scale, p.scale};
        rows(strip, p.rows);
      } else {
        by_sums<a_unit_row>(p, panel);
      }
    }
  }

  static void product(const Product& p) {
    if (p.a_row == 1) {
      by_terms(p, terms_at_once<true>, all_panels<true>);
    } else {
      by_terms(p, terms_at_once<false>, all_panels<false>);
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
