#pragma once

#include <algorithm>

#include "kernels/generic/register_tiles.hpp"

// The product over a vector type V. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Calls part(p) for C += A B by blocks of so many terms and what is left, or once where the sum is
// made elsewhere, by the same blocks. So scores have the same bits with exp and without, with a
// bias, and where they are made of columns that come a multiple of the terms at a time.
template <class Product, class Part>
IOATTN_INLINE void by_terms(const Product& p, index_t most, const Part& part) {
  if (p.depth <= most || !adds_blocks_to_c(p)) {
    part(p);
    return;
  }
  Product some = p;
  for (index_t q = 0; q < p.depth; q += most) {
    const index_t left = p.depth - q;
    some.a.data = p.a.at(0, q);
    some.b.data = p.b.row_of(0, q);
    if (p.beside != nullptr) some.beside = p.beside + q;
    some.depth = left < most ? left : most;
    some.epilogue = left > most ? Epilogue::none : p.epilogue;
    part(some);
    some.accumulate = true;
    some.row_scale = nullptr;
  }
}

// In register tiles of max_rows rows and one panel. With wide_rows, panels are taken two by two, in
// tiles of so many rows that take fewer loads: 6 x 64 floats 10 for 24 multiply-adds, 8 x 32 for
// 16. Of a last panel that has no more columns than half its vectors, no others are computed. Rest,
// if any, is tiles of one vector half as long: without an epilogue they make what is left of a last
// panel beside that half, or all of it. The operations that make an element and their order are the
// same.
template <class V, int max_rows, int vectors, class Terms = SingleTerms<V>, int wide_rows = 0,
          class Rest = void>
struct ProductKernel {
  using T = typename V::value_type;
  using Word = typename Terms::Word;
  using Product = kernels::Product<T, Word>;
  using Tiles = RegisterTiles<V, vectors, Terms>;
  using Finish = typename Tiles::Finish;
  using Strip = typename Tiles::Strip;
  static constexpr int nr = vectors * V::lanes;
  static constexpr int most_vectors_halved = 8;  // half of more would be no tile of registers
  static constexpr int narrow = vectors > most_vectors_halved ? 0 : vectors / 2;

  template <int width>
  static constexpr int panels_of = width > vectors ? width / vectors : 1;
  template <int width>
  static constexpr index_t lanes_of = std::min(width, vectors) * V::lanes;  // of each

  // One panel of the columns of a product.
  struct Panel {
    const Word* b;
    T* c;
    const T* lane;
    index_t columns;  // nr where C may be written that far
  };

  // Rows [first, first + rows) of C = exp(sums (+ C) - shift), or C o (sums - shift), over the
  // first vectors of a panel.
  template <Epilogue epilogue, int count, bool shift_by_row, bool accumulate>
  static IOATTN_KERNEL void whole_sums(const Product& p, const Panel& panel, index_t first,
                                       index_t rows, const T* sums) {
    const index_t c_row = p.c.row;
    const T* row = p.row;
    const V scale = V::splat(shift_by_row ? Tiles::scale_of_sums(p.scale) : T(1));
    T* c = panel.c;
    V shift[count];
    if (!shift_by_row)
      for (int v = 0; v < count; ++v) shift[v] = V::load(panel.lane + v * V::lanes);
    for (index_t i = first; i < first + rows; ++i, sums += nr) {
      T* target = c + i * c_row;
      __builtin_prefetch(target + 4 * c_row, 1);
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        V x = V::load(sums + v * V::lanes);
        if (accumulate) {
          x = V::fma(x, scale, V::load(target + v * V::lanes));
          x = x - (shift_by_row ? V::splat(row[i]) : shift[v]);
        } else {
          x = shift_by_row ? V::fma(x, scale, V::splat(-row[i])) : x - shift[v];
        }
        const V y = epilogue == Epilogue::exp ? Terms::exp(x) : V::load(target + v * V::lanes) * x;
        y.store(target + v * V::lanes);
      }
    }
  }

  // The same for everything that a Product can ask for, and for the first columns of a panel.
  template <bool partial>
  static IOATTN_KERNEL void any_sums(const Product& p, const Panel& panel, int lanes, index_t first,
                                     index_t rows, const T* sums) {
    const V scale = V::splat(p.row != nullptr ? Tiles::scale_of_sums(p.scale) : T(1));
    for (index_t i = first; i < first + rows; ++i, sums += nr) {
      for (int v = 0; v < lanes; v += V::lanes) {
        T* const c = panel.c + i * p.c.row + v;
        const index_t columns = panel.columns - v;
        const auto before = [&] { return partial ? V::load_first(c, columns) : V::load(c); };
        V x = V::load(sums + v);
        if (p.accumulate) {
          x = p.row_scale != nullptr ? V::fma(before(), V::splat(p.row_scale[i]), x * scale)
                                     : V::fma(x, scale, before());
        }
        if (p.epilogue != Epilogue::none) {
          if (p.row == nullptr) {
            x = x - V::load(panel.lane + v);
          } else {
            x = p.accumulate ? x - V::splat(p.row[i]) : V::fma(x, scale, V::splat(-p.row[i]));
          }
          x = p.epilogue == Epilogue::exp ? Terms::exp(x) : before() * x;
        }
        if (partial) {
          x.store_first(c, columns);
        } else {
          x.store(c);
        }
      }
    }
  }

  template <Epilogue epilogue, int count, bool accumulate>
  static void finish_whole_sums(const Product& p, const Panel& panel, index_t first, index_t rows,
                                const T* sums) {
    if (p.row != nullptr) {
      whole_sums<epilogue, count, true, accumulate>(p, panel, first, rows, sums);
    } else {
      whole_sums<epilogue, count, false, accumulate>(p, panel, first, rows, sums);
    }
  }

  template <int count = vectors>
  static void finish_sums(const Product& p, const Panel& panel, index_t first, index_t rows,
                          const T* sums) {
    if (panel.columns < lanes_of<count>) {
      any_sums<true>(p, panel, count * V::lanes, first, rows, sums);
    } else if (p.epilogue == Epilogue::none || p.row_scale != nullptr) {
      any_sums<false>(p, panel, count * V::lanes, first, rows, sums);
    } else if (p.epilogue == Epilogue::gradient) {
      finish_whole_sums<Epilogue::gradient, count, false>(p, panel, first, rows, sums);
    } else if (p.accumulate) {
      finish_whole_sums<Epilogue::exp, count, true>(p, panel, first, rows, sums);
    } else {
      finish_whole_sums<Epilogue::exp, count, false>(p, panel, first, rows, sums);
    }
  }

  // Of which products rows that are read next are fetched: sums of values.
  template <bool a_unit_row>
  static constexpr bool may_fetch = a_unit_row == Terms::columns_of_a_fetch;

  template <int width, bool a_unit_row, Finish finish, bool fetches = false>
  static void all_rows(const Strip& strip, index_t rows) {
    constexpr int most = width > vectors ? wide_rows : width == vectors ? max_rows : narrow_rows;
    Tiles::template all_rows<most, width, a_unit_row, finish, fetches>(strip, rows);
  }

  template <int panels>
  static constexpr index_t rows_of_sums = tiles_of_sums* max_rows / panels;

  // Panels by way of their sums: for whatever has no Finish of its own.
  template <int width, bool a_unit_row>
  static void by_sums(const Product& p, const Panel* panel) {
    constexpr int panels = panels_of<width>;
    constexpr int count_of_vectors = std::min(width, vectors);
    constexpr index_t most_rows = rows_of_sums<panels>, panel_of_sums = most_rows * nr;
    alignas(64) T sums[panels * panel_of_sums];
    for (index_t row = 0; row < p.rows; row += most_rows) {
      const index_t count = p.rows - row < most_rows ? p.rows - row : most_rows;
      constexpr index_t most = terms_at_once<Word, T, a_unit_row>;
      for (index_t q = 0; q == 0 || q < p.depth; q += most) {
        const index_t left = p.depth - q;
        Strip strip = {};
        strip.a = p.a.at(row, q);
        strip.a_row = p.a.row;
        strip.a_depth = p.a.depth;
        strip.b = panel[0].b + q * p.b.row;
        strip.b_panel = p.b.panel;
        strip.b_row = p.b.row;
        strip.depth = left < most ? left : most;
        strip.c = sums;
        strip.c_panel = panel_of_sums;
        strip.c_row = nr;
        strip.scale = p.scale;
        const Word* beside = beside_of(p, panel[0]);
        strip.beside = beside == nullptr ? nullptr : beside + row * p.beside_row + q;
        strip.beside_row = p.beside_row;
        if (q == 0) {
          all_rows<width, a_unit_row, Finish::store>(strip, count);
        } else {
          all_rows<width, a_unit_row, Finish::add>(strip, count);
        }
      }
      for (int k = 0; k < panels; ++k)
        finish_sums<count_of_vectors>(p, panel[k], row, count, sums + k * panel_of_sums);
    }
  }

  // Once, beside the first columns.
  static const Word* beside_of(const Product& p, const Panel& panel) {
    return panel.b == p.b.data ? p.beside : nullptr;
  }

  using Rows = void (*)(const Strip&, index_t);

  // What finishes the rows of whole panels; nullptr if they go by way of their sums.
  template <int width, bool a_unit_row, bool fetches>
  static Rows plain_rows_for(const Product& p) {
    if (!p.accumulate) return all_rows<width, a_unit_row, Finish::store, fetches>;
    return p.row_scale != nullptr ? all_rows<width, a_unit_row, Finish::scale_add, fetches>
                                  : all_rows<width, a_unit_row, Finish::add, fetches>;
  }
  template <int width, bool a_unit_row>
  static Rows rows_for(const Product& p, bool fetches) {
    constexpr index_t most = terms_at_once<Word, T, a_unit_row>;
    if (p.epilogue == Epilogue::none) {
      if (p.depth > most) return nullptr;
      if constexpr (may_fetch<a_unit_row> && width >= vectors) {
        if (fetches) return plain_rows_for<width, a_unit_row, true>(p);
      }
      return plain_rows_for<width, a_unit_row, false>(p);
    }
    if constexpr (!a_unit_row) {  // score products have rows of queries or keys
      if (p.epilogue == Epilogue::gradient && !p.accumulate &&
          p.depth <= most_terms_at_once<Word, T, a_unit_row>) {
        return p.row != nullptr ? all_rows<width, false, Finish::gradient_row>
                                : all_rows<width, false, Finish::gradient_lane>;
      }
    }
    return nullptr;
  }

  static Panel panel_at(const Product& p, index_t col) {
    const index_t left = p.cols - col;
    return {p.b.row_of(col / nr, 0), p.c.row_of(col / nr, 0),
            p.lane + (p.lane != nullptr ? col : 0), left >= nr || p.padded ? nr : left};
  }

  template <class Some>
  static typename Some::Strip strip_of(const Product& p, const Panel& panel, RowsFetcher* fetcher) {
    return {p.a.data,    p.a.row, p.a.depth,           panel.b,      p.b.panel,  p.b.row,
            p.depth,     panel.c, p.c.panel,           p.c.row,      panel.lane, p.row,
            p.row_scale, p.scale, beside_of(p, panel), p.beside_row, fetcher,    panel.columns};
  }

  template <int width, bool a_unit_row>
  static void some_panels(const Product& p, const Panel* panel, Rows rows, RowsFetcher* fetcher) {
    if (rows != nullptr && panel[0].columns >= lanes_of<width>) {
      rows(strip_of<Tiles>(p, panel[0], fetcher), p.rows);
    } else {
      by_sums<width, a_unit_row>(p, panel);
    }
  }

  // Columns that are left for vectors of half the length. Where C may be written to the end of its
  // panel, what else TileShape::computed() has is 0, as sums with B's padding are.
  template <bool a_unit_row>
  static void rest_of_columns(const Product& p, index_t col) {
    using Vector = typename Rest::Vector;
    Panel panel = panel_at(p, col);
    const index_t first = col % nr;
    panel.b += first;
    panel.c += first;
    using How = typename Rest::Finish;
    const auto strip = strip_of<Rest>(p, panel, nullptr);
    if (!p.accumulate) {
      Rest::template all_rows<narrow_rows, 1, a_unit_row, How::store, false>(strip, p.rows);
      for (index_t i = 0; i < p.rows && p.padded; ++i)
        Rest::store(Vector::splat(0), panel.c + i * p.c.row + Vector::lanes, Vector::lanes);
    } else if (p.row_scale != nullptr) {
      Rest::template all_rows<narrow_rows, 1, a_unit_row, How::scale_add, false>(strip, p.rows);
    } else {
      Rest::template all_rows<narrow_rows, 1, a_unit_row, How::add, false>(strip, p.rows);
    }
  }

  template <bool a_unit_row>
  static void all_panels(const Product& p, RowsFetcher* fetcher) {
    constexpr index_t narrow_lanes = narrow * V::lanes;
    index_t rest_lanes = 0;
    if constexpr (!std::is_void_v<Rest>) {
      if (p.epilogue == Epilogue::none) rest_lanes = narrow_lanes / 2;
    }
    index_t col = 0;
    if constexpr (wide_rows > 0) {
      const Rows rows = rows_for<2 * vectors, a_unit_row>(p, fetcher != nullptr);
      for (; p.cols - col > nr + narrow_lanes + rest_lanes; col += 2 * index_t(nr)) {
        const Panel panels[] = {panel_at(p, col), panel_at(p, col + nr)};
        if (panels[1].columns < nr) break;
        some_panels<2 * vectors, a_unit_row>(p, panels, rows, fetcher);
      }
    }
    const Rows rows = rows_for<vectors, a_unit_row>(p, fetcher != nullptr);
    for (; p.cols - col > narrow_lanes + rest_lanes; col += nr) {
      const Panel panel = panel_at(p, col);
      some_panels<vectors, a_unit_row>(p, &panel, rows, fetcher);
    }
    if constexpr (narrow > 0) {
      if (p.cols - col > rest_lanes) {
        const Panel panel = panel_at(p, col);
        some_panels<narrow, a_unit_row>(
            p, &panel, rows_for<narrow, a_unit_row>(p, fetcher != nullptr), fetcher);
        col += narrow_lanes;
      }
      if constexpr (!std::is_void_v<Rest>) {
        if (p.cols > col) rest_of_columns<a_unit_row>(p, col);
      }
    }
  }

  static void product(const Product& p) {
    if (p.a.row == 1) {
      product_of<true>(p);
    } else {
      product_of<false>(p);
    }
  }

  template <bool a_unit_row>
  static void product_of(const Product& all) {
    constexpr index_t most_terms = terms_at_once<Word, T, a_unit_row>;
    if constexpr (may_fetch<a_unit_row>) {
      if (all.ahead.first != nullptr) return fetching_product<a_unit_row>(all, most_terms);
    }
    by_terms(all, most_terms, [](const Product& p) { all_panels<a_unit_row>(p, nullptr); });
  }

  template <bool a_unit_row>
  static void fetching_product(const Product& all, index_t most_terms) {
    constexpr int width = wide_rows > 0 ? 2 * vectors : vectors;
    constexpr int columns = width * V::lanes;
    constexpr int most = wide_rows > 0 ? wide_rows : max_rows;
    constexpr int rows = Tiles::template most_fetching<most, width>;
    const index_t tiles = ((all.cols + columns - 1) / columns) * ((all.rows + rows - 1) / rows);
    // The last terms of a tile are no steps.
    RowsFetcher fetcher(all.ahead, tiles * all.depth * 15 / 16 / Tiles::terms_a_step);
    by_terms(all, most_terms, [&](const Product& p) { all_panels<a_unit_row>(p, &fetcher); });
  }
};

}  // namespace
}  // namespace ioattn::kernels
