#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/transpose_kernel.hpp"

// The product of pairs over a type of tiles, EmulatedTiles or X86Tiles. See scalar_vector.hpp about
// the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Two by two tiles of C at a time: numbers 0 to 3, beside two of A, 4 and 5, and two of B. Rows of
// pairs are A's layout in a tile as they stand and a panel of pairs is B's; columns of A are
// transposed. What is smaller than a tile takes the place of zeros in one. Plain sums start from C,
// in the tiles; where there is more to do, V and Terms finish the sums, while the tiles make the
// next ones.
template <class Tiles, class V, class Terms>
struct TileProduct {
  static constexpr index_t side = Tiles::side, nr = 2 * side;

  static constexpr PairKernels table(PairKernels pairs) {
    pairs.product = all_strips;
    pairs.fma_loop = fma_loop;
    pairs.fma_per_iteration = 4 * side * side * 2 * side;
    pairs.acquire = acquire;
    pairs.release = release;
    return pairs;
  }

 protected:
  using Word = bf16x2;
  using Product = kernels::Product<float, Word>;
  using Finish = ProductKernel<V, 1, static_cast<int>(nr) / V::lanes, Terms>;
  using Panel = typename Finish::Panel;
  static constexpr index_t most_terms = terms_per_accumulator;

  static constexpr index_t at_most(index_t limit, index_t x) { return x < limit ? x : limit; }

  // Sums [rows][nr] of a panel that C waits for.
  struct Pending {
    const Product* product = nullptr;
    Panel panel = {};
    index_t row = 0, rows = 0;
    float* sums = nullptr;

    IOATTN_INLINE void finish(index_t some) {
      const index_t count = at_most(rows, some);
      if (count == 0) return;
      if (product->scale != 1) {
        const V scale = V::splat(product->scale);
        for (index_t i = 0; i < count * nr; i += V::lanes)
          (V::load(sums + i) * scale).store(sums + i);
      }
      Finish::finish_sums(*product, panel, row, count, sums);
      row += count;
      rows -= count;
      sums += count * nr;
    }
    IOATTN_INLINE void finish() { finish(rows); }
  };

  // Rows of A, at most nr, and some terms of them. Row i of step s, `side` terms, is at
  // whole + s * step + i * row, that of a last step of fewer terms at last + i * side.
  struct Strip {
    const Word* whole;
    index_t step, row;
    const Word* last;
    index_t rows, depth;
  };

  // Lines of the rows that are read next are fetched like work that waits, as many beside each
  // block of sums as bring all of them beside all blocks.
  struct Fetcher {
    RowsAhead ahead;
    index_t left, lines_a_block, at = 0, rows = 0;  // rows: lines to be fetched beside this block

    IOATTN_INLINE Fetcher(const RowsAhead& of, index_t blocks) : ahead(of) {
      left = of.first == nullptr ? 0 : of.rows * ((of.row_bytes + line - 1) / line);
      lines_a_block = blocks > 0 ? (left + blocks - 1) / blocks : 0;
    }
    IOATTN_INLINE void begin_block() {
      rows = at_most(left, lines_a_block);
      left -= rows;
    }
    IOATTN_INLINE void finish(index_t some) {
      const index_t count = at_most(rows, some);
      rows -= count;
      for (index_t k = 0; k < count; ++k) {
        __builtin_prefetch(static_cast<const char*>(ahead.first) + at, 0, 2);
        at += line;
        if (at < ahead.row_bytes) continue;
        at = 0;
        ahead.first = static_cast<const char*>(ahead.first) + ahead.stride_bytes;
      }
    }

   private:
    static constexpr index_t line = 64;
  };

  struct alignas(64) Scratch {
    Word a[most_terms * nr];
    Word b[side * nr];  // the last terms of a panel
    float sums[nr * nr];
    float edge[nr * nr];  // of C where it ends within a tile
  };

  static IOATTN_INLINE void copy_tiles(const Product& p, const Word* from, index_t rows,
                                       index_t terms, Word* to) {
    if (terms < side || rows % side != 0) std::memset(to, 0, sizeof(Word) * nr * side);
    if (p.a.depth == 1) {
      for (index_t i = 0; i < rows; ++i)
        std::memcpy(to + i * side, from + i * p.a.row,
                    static_cast<std::size_t>(terms) * sizeof(Word));
    } else {
      TransposeKernel<V>::transpose(reinterpret_cast<const float*>(from), p.a.depth, terms, rows,
                                    false, reinterpret_cast<float*>(to), side);
    }
  }

  static IOATTN_INLINE Strip strip_of(const Product& p, index_t row, index_t q, Word* copies) {
    Strip strip = {};
    strip.rows = at_most(nr, p.rows - row);
    strip.depth = at_most(most_terms, p.depth - q);
    const Word* from = p.a.at(row, q);
    const index_t whole = strip.depth / side;
    const bool in_place = p.a.depth == 1 && strip.rows % side == 0;
    strip.whole = in_place ? from : copies;
    strip.step = in_place ? side : nr * side;
    strip.row = in_place ? p.a.row : side;
    strip.last = copies + whole * nr * side;
    for (index_t s = in_place ? whole : 0; s * side < strip.depth; ++s)
      copy_tiles(p, from + s * side * p.a.depth, strip.rows, at_most(side, strip.depth - s * side),
                 copies + s * nr * side);
    return strip;
  }

  // Whether panels of B are read again before they have left L1. Those that are not, and C, would
  // drive out rows of A, and what vectors write beside the products.
  enum class Panels { stay, stream };
  static constexpr index_t most_that_stay = 1 << 13;  // words: two thirds of L1
  static IOATTN_INLINE bool panels_stream(const Product& p) {
    return p.cols * p.depth > most_that_stay;
  }

  template <int k>
  using Index = std::integral_constant<int, k>;

  // All operands are loaded before the first product: where another thread has the core's other
  // half, products and loads take turns. `between`, called with its number, runs after every
  // product.
  template <int row_tiles, Panels panels, class Between>
  static IOATTN_INLINE void add_step(const Word* a, index_t a_row, const Word* b, index_t b_row,
                                     const Between& between) {
    Tiles::template load<4>(a, a_row);
    if constexpr (panels == Panels::stream) {
      Tiles::template load_streaming<6>(b, b_row);
      Tiles::template load_streaming<7>(b + side, b_row);
    } else {
      Tiles::template load<6>(b, b_row);
      Tiles::template load<7>(b + side, b_row);
    }
    if constexpr (row_tiles == 2) Tiles::template load<5>(a + side * a_row, a_row);
    Tiles::template multiply_add<0, 4, 6>();
    between(Index<0>{});
    Tiles::template multiply_add<1, 4, 7>();
    between(Index<1>{});
    if constexpr (row_tiles == 2) {
      Tiles::template multiply_add<3, 5, 7>();
      between(Index<2>{});
      Tiles::template multiply_add<2, 5, 6>();
      between(Index<3>{});
    }
  }

  // The tiles of C: zeros if it is null.
  template <int row_tiles>
  static IOATTN_INLINE void begin(const float* c, index_t c_row) {
    if (c == nullptr) {
      Tiles::template zero<0>();
      Tiles::template zero<1>();
      if constexpr (row_tiles == 2) {
        Tiles::template zero<2>();
        Tiles::template zero<3>();
      }
      return;
    }
    Tiles::template load_streaming<0>(c, c_row);
    Tiles::template load_streaming<1>(c + side, c_row);
    if constexpr (row_tiles == 2) {
      Tiles::template load_streaming<2>(c + side * c_row, c_row);
      Tiles::template load_streaming<3>(c + side * c_row + side, c_row);
    }
  }
  template <int row_tiles>
  static IOATTN_INLINE void end(float* c, index_t c_row) {
    Tiles::template store<0>(c, c_row);
    Tiles::template store<1>(c + side, c_row);
    if constexpr (row_tiles == 2) {
      Tiles::template store<3>(c + side * c_row + side, c_row);
      Tiles::template store<2>(c + side * c_row, c_row);
    }
  }

  template <int row_tiles>
  static index_t products_of(const Strip& a) {
    return a.depth / side * 2 * row_tiles;
  }
  template <int row_tiles, Panels panels, class Between>
  static IOATTN_INLINE void add_terms(const Strip& a, const Word* b, index_t b_row, Word* last_b,
                                      const Between& between) {
    // Copies: what the strip is of may change with every tile that is stored.
    const index_t whole = a.depth / side, left = a.depth % side, a_step = a.step, a_row = a.row;
    const Word* at_a = a.whole;
    const Word* at_b = b;
    for (index_t s = 0; s < whole; ++s, at_a += a_step, at_b += side * b_row)
      add_step<row_tiles, panels>(at_a, a_row, at_b, b_row, between);
    if (left == 0) return;
    for (index_t q = 0; q < left; ++q)
      std::memcpy(last_b + q * nr, b + (whole * side + q) * b_row, nr * sizeof(Word));
    std::memset(last_b + left * nr, 0, static_cast<std::size_t>(side - left) * nr * sizeof(Word));
    add_step<row_tiles, Panels::stay>(a.last, side, last_b, nr, [](auto) {});
  }

  // Some of what waits. No lambda: one would be inlined only when `waiting` has its place in
  // memory.
  template <class Waiting>
  struct Some {
    Waiting* waiting;
    index_t count;
    template <class Product>
    IOATTN_INLINE void operator()(Product) const {
      waiting->finish(count);
    }
  };

  // Work for vectors that waits, a Pending or the like, is done between the products.
  template <int row_tiles, Panels panels, class Waiting>
  static IOATTN_INLINE void add_terms_beside(const Strip& a, const Word* b, index_t b_row,
                                             Word* last_b, Waiting* waiting) {
    const index_t products = products_of<row_tiles>(a);
    if (waiting->rows == 0 || products == 0) {
      add_terms<row_tiles, panels>(a, b, b_row, last_b, [](auto) {});
    } else {
      const index_t some = (waiting->rows + products - 1) / products;
      add_terms<row_tiles, panels>(a, b, b_row, last_b, Some<Waiting>{waiting, some});
    }
  }

  template <int row_tiles, Panels panels, class Waiting>
  static IOATTN_INLINE void add_all_terms(const Product& p, index_t row, const Word* b,
                                          Strip* strip, Scratch* scratch, Waiting* waiting) {
    add_terms_beside<row_tiles, panels>(*strip, b, p.b.row, scratch->b, waiting);
    for (index_t q = most_terms; q < p.depth; q += most_terms) {
      *strip = strip_of(p, row, q, scratch->a);
      add_terms_beside<row_tiles, panels>(*strip, b + q * p.b.row, p.b.row, scratch->b, waiting);
    }
  }

  // A strip of rows times a panel of columns, into C or, if that waits for its end, to sums.
  template <Panels panels>
  struct Part {
    const Product& p;
    Panel panel;
    index_t row;
    Scratch* scratch;
    Pending* pending;
    Fetcher* fetcher;

    template <int row_tiles>
    IOATTN_INLINE void multiply(Strip* strip) const {
      if (p.epilogue == Epilogue::none && p.scale == 1) {
        add_to_c<row_tiles>(strip);
        return;
      }
      begin<row_tiles>(nullptr, 0);
      add_all_terms<row_tiles, panels>(p, row, panel.b, strip, scratch, pending);
      pending->finish();
      end<row_tiles>(scratch->sums, nr);
      *pending = {&p, panel, row, strip->rows, scratch->sums};
    }

   private:
    template <int row_tiles>
    IOATTN_INLINE void add_all(Strip* strip) const {
      fetcher->begin_block();
      add_all_terms<row_tiles, panels>(p, row, panel.b, strip, scratch, fetcher);
    }

    template <int row_tiles>
    IOATTN_INLINE void add_to_c(Strip* strip) const {
      float* const whole = panel.c + row * p.c.row;
      const index_t rows = strip->rows;
      if (rows % side == 0 && panel.columns == nr) {
        if (p.accumulate && p.row_scale != nullptr) scale_rows(whole, p.c.row, rows);
        begin<row_tiles>(p.accumulate ? whole : nullptr, p.c.row);
        add_all<row_tiles>(strip);
        end<row_tiles>(whole, p.c.row);
        return;
      }
      float* const edge = scratch->edge;
      if (p.accumulate) {
        for (index_t i = 0; i < rows; ++i)
          std::memcpy(edge + i * nr, whole + i * p.c.row, row_bytes());
        if (p.row_scale != nullptr) scale_rows(edge, nr, rows);
      }
      begin<row_tiles>(p.accumulate ? edge : nullptr, nr);
      add_all<row_tiles>(strip);
      end<row_tiles>(edge, nr);
      for (index_t i = 0; i < rows; ++i)
        std::memcpy(whole + i * p.c.row, edge + i * nr, row_bytes());
    }

    IOATTN_INLINE std::size_t row_bytes() const {
      return static_cast<std::size_t>(panel.columns) * sizeof(float);
    }
    // Most factors of an online softmax are 1.
    IOATTN_INLINE void scale_rows(float* c, index_t c_row, index_t rows) const {
      for (index_t i = 0; i < rows; ++i) {
        const float factor = p.row_scale[row + i];
        if (factor == 1) continue;
        for (index_t j = 0; j < nr; j += V::lanes)
          (V::load(c + i * c_row + j) * V::splat(factor)).store(c + i * c_row + j);
      }
    }
  };

  static IOATTN_KERNEL void all_strips(const Product& product) {
    if (panels_stream(product)) {
      all_strips_by<Panels::stream>(product);
    } else {
      all_strips_by<Panels::stay>(product);
    }
  }
  template <Panels panels>
  static IOATTN_INLINE void all_strips_by(const Product& product) {
    const Product p = product;
    Scratch scratch;
    Pending pending;
    Fetcher fetcher(p.ahead, (p.rows + nr - 1) / nr * ((p.cols + nr - 1) / nr));
    for (index_t row = 0; row < p.rows; row += nr) {
      Strip strip = strip_of(p, row, 0, scratch.a);
      for (index_t col = 0; col < p.cols; col += nr) {
        const index_t left = p.cols - col;
        const Panel panel = {p.b.row_of(col / nr, 0), p.c.row_of(col / nr, 0),
                             p.lane + (p.lane != nullptr ? col : 0),
                             left >= nr || p.padded ? nr : left};
        if (col > 0 && p.depth > most_terms) strip = strip_of(p, row, 0, scratch.a);
        const Part<panels> part = {p, panel, row, &scratch, &pending, &fetcher};
        if (strip.rows > side) {
          part.template multiply<2>(&strip);
        } else {
          part.template multiply<1>(&strip);
        }
      }
    }
    pending.finish();
  }

  static IOATTN_KERNEL void acquire() { Tiles::configure(); }
  static IOATTN_KERNEL void release() { Tiles::release(); }

  // Four sums, as many as an instruction has cycles of latency for each that it starts in.
  static IOATTN_KERNEL float fma_loop(index_t iterations) {
    Word halves[side * side];
    for (Word& pair : halves) pair = {0x3f003f00};
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
    Tiles::template load<4>(halves, side);
    Tiles::template load<5>(halves, side);
    Tiles::template load<6>(halves, side);
    Tiles::template load<7>(halves, side);
    for (index_t k = 0; k < iterations; ++k) {
      Tiles::template multiply_add<0, 4, 6>();
      Tiles::template multiply_add<1, 4, 7>();
      Tiles::template multiply_add<2, 5, 6>();
      Tiles::template multiply_add<3, 5, 7>();
    }
    float sums[4][side * side];
    Tiles::template store<0>(sums[0], side);
    Tiles::template store<1>(sums[1], side);
    Tiles::template store<2>(sums[2], side);
    Tiles::template store<3>(sums[3], side);
    return sums[0][0] + sums[1][0] + sums[2][0] + sums[3][0];
  }
};

}  // namespace
}  // namespace ioattn::kernels
