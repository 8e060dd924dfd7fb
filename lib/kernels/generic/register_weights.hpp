#pragma once

#include <limits>

#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/score_kernels.hpp"

// Softmax weights straight from the registers that scores are made in, over a vector type V that
// looks up powers. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// A tile of scores, rows of keys by a panel of queries, becomes weights while the next one is made:
// that is possible as long as no query's maximum, which all of its weights refer to, has to grow.
// by_sums: for CPUs where sums leave multiply-adds their place.
template <class V, int max_rows, int vectors, class Products, bool by_sums = false>
struct RegisterWeights {
  using T = typename V::value_type;
  using Product = kernels::Product<T>;
  using Tiles = typename Products::Tiles;
  using Strip = typename Tiles::Strip;
  using Scores = ScoreKernels<V>;
  using Exp = Exponential<V>;
  static constexpr index_t nr = vectors * V::lanes;
  static_assert(max_rows == Scores::weights_per_sum);

  // A panel of queries with more leaves no room in a small L1 for anything else.
  static constexpr index_t most_terms = KernelTable<T>::most_terms_weighed;
  static_assert(most_terms <= most_terms_at_once<T, T, false>);
  static constexpr index_t most_panels = KernelTable<T>::most_panels_weighed;
  struct alignas(64) Panel {
    T row_max[nr], row_sum[nr];
    T largest[nr];            // score less row_max
    T scores[max_rows * nr];  // of the tile that waits
  };

  // A tile of scores, which become weights while the next one is made.
  struct Waiting {
    static constexpr index_t pieces = max_rows, stages = 4;
    Panel* panel;
    T* to;
    index_t stride;

    struct State {
      Exp of[vectors];
      V sum[vectors], largest[vectors];

      IOATTN_INLINE State() {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          sum[v] = V::splat(T(0));
          largest[v] = V::splat(-std::numeric_limits<T>::infinity());
        }
      }
    };
    template <int stage>
    IOATTN_INLINE void run(index_t row, State* state) const {
      const auto& c = read_again(Exp::constants);
      const T* scores = panel->scores + row * nr;
      T* const weights = to + row * stride;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const index_t lane = v * V::lanes;
        Exp& weight = state->of[v];
        if constexpr (stage == 0) {
          __builtin_prefetch(weights + lane, 1);
          const V exponent = V::load(scores + lane) - V::load(panel->row_max + lane);
          state->largest[v] = V::max(state->largest[v], exponent);
          weight.begin(exponent, c);
        } else if constexpr (stage == 1) {
          weight.template split<by_sums>(c);
        } else if constexpr (stage == 2) {
          weight.template begin_tail<by_sums>(c);
        } else {
          const V result = weight.result();
          result.store(weights + lane);
          state->sum[v] = state->sum[v] + result;
        }
      }
    }
    IOATTN_INLINE void end(const State& state) const {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        T* const total = panel->row_sum + v * V::lanes;
        (V::load(total) + state.sum[v]).store(total);
        T* const largest = panel->largest + v * V::lanes;
        V::max(V::load(largest), state.largest[v]).store(largest);
      }
    }
  };

  template <class Store, class Work = NoWork>
  static IOATTN_INLINE void weigh_tile(const Strip& s, const T* a, const Store& store,
                                       const Work& work = {}) {
    constexpr int held = Tiles::template held_terms<max_rows, vectors>;
    Tiles::template tile<max_rows, vectors, false, held, false, true>(s, a, store, work);
  }

  static IOATTN_KERNEL void weigh_tiles(const Strip& strip, index_t count, Panel* panel) {
    Strip s = strip;
    s.beside = nullptr;  // as it is, and rows are fetched by `beyond`: for the compiler
    const bool overlaps =
        s.depth >= Tiles::template least_terms_with_work<max_rows, vectors, Waiting>;
    const auto store = [&](int i, const V(&sums)[vectors]) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[v].store(panel->scores + i * nr + v * V::lanes);
    };
    const T* a = s.a;
    Waiting waiting = {panel, s.c, s.c_row};
    RowsBeyond<T, max_rows> beyond = {a + max_rows * s.a_row, strip.beside, s.a_row,
                                      strip.beside_row, s.depth};
    beyond.fetch();
    weigh_tile(s, a, store);
    for (index_t tile = 1; tile < count; ++tile) {
      Tiles::step(&a, max_rows * s.a_row);
      beyond.fetch();
      if (overlaps) {
        weigh_tile(s, a, store, waiting);
      } else {
        run_alone(waiting, max_rows);
        weigh_tile(s, a, store);
      }
      Tiles::step(&waiting.to, max_rows * s.c_row);
    }
    run_alone(waiting, max_rows);
  }

  // The keys that are left, fewer than a tile has.
  static IOATTN_KERNEL void weigh_last(const Product& p, index_t first, index_t col, Panel* panel) {
    Product last = p;
    last.rows = p.rows - first;
    last.cols = nr;
    last.a.data = p.a.at(first, 0);
    last.b.data = p.b.row_of(col / nr, 0);
    last.c = {panel->scores, p.c.panel, nr};
    last.padded = true;
    last.beside = nullptr;  // those of the first keys
    Products::product(last);
    T* const to = p.c.row_of(col / nr, first);
    run_alone(Waiting{panel, to, p.c.row}, last.rows);
  }

  static IOATTN_KERNEL bool weights(const Product& p, const T* row_max, T* row_sum) {
    if (p.depth == 0 || p.depth > most_terms || p.cols > most_panels * nr) return false;
    const index_t in_tiles = p.rows / max_rows * max_rows;
    Panel panel;
    T sums[most_panels * nr];
    const index_t lanes = (p.cols + nr - 1) / nr * nr;
    bool stay = true;
    for (index_t i = 0; i < lanes; ++i)
      stay = stay && row_max[i] != -std::numeric_limits<T>::infinity();
    for (index_t col = 0; col < p.cols && stay; col += nr) {
      for (index_t i = 0; i < nr; ++i) {
        panel.row_max[i] = row_max[col + i];
        panel.row_sum[i] = 0;
        panel.largest[i] = 0;
      }
      if (in_tiles > 0) {
        Strip strip = {};
        strip.a = p.a.data;
        strip.a_row = p.a.row;
        strip.a_depth = p.a.depth;
        strip.b = p.b.row_of(col / nr, 0);
        strip.b_panel = p.b.panel;
        strip.b_row = p.b.row;
        strip.depth = p.depth;
        strip.c = p.c.row_of(col / nr, 0);
        strip.c_row = p.c.row;
        strip.beside = col == 0 ? p.beside : nullptr;
        strip.beside_row = p.beside_row;
        weigh_tiles(strip, in_tiles / max_rows, &panel);
      }
      if (in_tiles < p.rows) weigh_last(p, in_tiles, col, &panel);
      for (index_t i = 0; i < nr; ++i) {
        stay = stay && !(panel.largest[i] > Scores::largest_exponent);
        sums[col + i] = row_sum[col + i] + panel.row_sum[i];
      }
    }
    for (index_t i = 0; stay && i < lanes; ++i) row_sum[i] = sums[i];
    return stay;
  }
};

}  // namespace
}  // namespace ioattn::kernels
