#pragma once

#include "kernels/generic/x86_bf16_pairs.hpp"

// Softmax weights straight from the registers that scores are made in. See scalar_vector.hpp about
// the anonymous namespace.
namespace ioattn::kernels {
namespace {

// A row of a tile of scores becomes weights as soon as it is whole, so that scores never are in
// memory: that is possible as long as no row's maximum, which all of its weights refer to, has to
// grow.
template <int max_rows>
struct X86Bf16Weights : X86Bf16Pairs<max_rows> {
  static constexpr PairKernels table() {
    PairKernels pairs = Base::table;
    pairs.weights = weights;
    return pairs;
  }

 private:
  using Base = X86Bf16Pairs<max_rows>;
  using Base::lanes;
  using Base::nr;
  using V = XsimdVector<float>;
  using Tiles = RegisterTiles<V, 2, Bf16Terms>;
  using Strip = typename Tiles::Strip;
  using Word = bf16x2;

  static constexpr index_t most_rows = 64;
  static_assert(PairKernels::most_rows_weighed <= most_rows &&
                PairKernels::most_pairs_weighed <= terms_per_accumulator);
  struct alignas(64) Rows {
    float binary_max[most_rows], staged_max[most_rows];  // as StagedPower takes them
    float part[most_rows * lanes];                       // of the sum of weights
    float scores[max_rows * nr];                         // of the tile that waits
  };

  // What becomes of scores of a panel of keys.
  struct Panel {
    index_t keys;
    float binary_scale;
    bf16x2* dst;
    index_t dst_stride;
  };

  // A tile of scores of a whole panel, which become weights while the next tile is made.
  struct Waiting {
    static constexpr index_t pieces = max_rows, stages = 3;
    const float* scores;  // [max_rows][nr]
    const float* staged_max;
    float* part;
    float staged_scale;
    bf16x2* to;
    index_t stride;

    struct State {
      StagedPower x, y;
    };
    static IOATTN_INLINE void end(const State&) {}
    template <int stage>
    IOATTN_INLINE void run(index_t row, State* state) const {
      const PowerConstants& c = power_constants_in_memory();
      if constexpr (stage == 0) {
        const __m512 scale = _mm512_set1_ps(staged_scale);
        const __m512 shift = _mm512_set1_ps(staged_max[row]);
        const float* of_row = scores + row * nr;
        const __m512 most = _mm512_set1_ps(c.most);
        state->x.begin(_mm512_fmsub_ps(_mm512_load_ps(of_row), scale, shift), most, c);
        state->y.begin(_mm512_fmsub_ps(_mm512_load_ps(of_row + lanes), scale, shift), most, c);
      } else if constexpr (stage == 1) {
        state->x.go_on(c);
        state->y.go_on(c);
      } else {
        const __m512 x = state->x.end(c), y = state->y.end(c);
        _mm512_storeu_si512(to + row * stride, Base::narrow(x, y));
        float* sum = part + row * lanes;
        _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), _mm512_add_ps(x, y)));
      }
    }
    void finish() {
      if (scores == nullptr) return;
      run_alone(*this, pieces);
      scores = nullptr;
    }
  };

  // Beside what waits, if anything does.
  static IOATTN_KERNEL void weigh_overlapped(const Strip& strip, const Panel& panel, index_t end,
                                             Rows* all, Waiting* waiting) {
    Strip s = strip;
    s.beside = nullptr;  // as it is: for the compiler
    for (index_t row = 0; row < end; row += max_rows) {
      float* const made = all->scores;  // those that wait are weights by then
      const auto store = [&](int i, const V(&sums)[2]) {
        sums[0].store(made + i * nr);
        sums[1].store(made + i * nr + lanes);
      };
      const Word* a = s.a + row * s.a_row;
      const Waiting before = *waiting;
      if (before.scores != nullptr) {
        Tiles::template tile<max_rows, 2, false>(s, a, store, before);
      } else {
        Tiles::template tile<max_rows, 2, false>(s, a, store);
      }
      *waiting = {made,
                  all->staged_max + row,
                  all->part + row * lanes,
                  panel.binary_scale * StagedPower::of_exponent,
                  panel.dst + row * panel.dst_stride,
                  panel.dst_stride};
    }
  }

  template <int rows, bool whole>
  static IOATTN_KERNEL void weigh_tiles(const Strip& strip, const Panel& panel, index_t row,
                                        index_t end, Rows* all) {
    const Strip s = strip;
    const __m512 binary_scale = _mm512_set1_ps(panel.binary_scale);
    const index_t keys = panel.keys;
    for (; row < end; row += rows) {
      const float* binary_max = all->binary_max + row;
      float* part = all->part + row * lanes;
      bf16x2* to = panel.dst + row * panel.dst_stride;
      // One term is held: the constants of the weights take registers, too.
      Tiles::template tile<rows, 2, false, 1>(
          s, s.a + row * s.a_row, [&](int i, const V(&scores)[2]) {
            __m512 sum = _mm512_load_ps(part + i * lanes);
            const Exponents exponents = {binary_scale, _mm512_set1_ps(binary_max[i])};
            Base::template weigh_scores<whole>(scores[0].value, scores[1].value, keys, exponents,
                                               &sum, to);
            _mm512_store_ps(part + i * lanes, sum);
            Tiles::step(&to, panel.dst_stride);
          });
    }
  }

  template <int rows, bool whole>
  static void weigh_last(const Strip& s, const Panel& panel, index_t row, index_t end, Rows* all) {
    if constexpr (rows > 0) {
      if (end - row == rows) {
        weigh_tiles<rows, whole>(s, panel, row, end, all);
      } else {
        weigh_last<rows - 1, whole>(s, panel, row, end, all);
      }
    }
  }

  template <bool whole>
  static void weigh(const Strip& s, const Panel& panel, index_t rows, Rows* all) {
    const index_t in_tiles = rows / max_rows * max_rows;
    weigh_tiles<max_rows, whole>(s, panel, 0, in_tiles, all);
    weigh_last<max_rows - 1, whole>(s, panel, in_tiles, rows, all);
  }

  static bool weights(const Product<float, bf16x2>& p, const PairWeights& weights) {
    if (p.rows > most_rows || p.depth > terms_per_accumulator) return false;
    const typename Base::WithoutDenormals mode;
    Rows all;
    for (index_t i = 0; i < p.rows; i += lanes) {
      const __m512 row_max =
          _mm512_maskz_loadu_ps(Base::first_of_16(p.rows - i), weights.row_max + i);
      if (!Base::are_ordinary(row_max)) return false;
      const __m512 binary_max = _mm512_mul_ps(row_max, _mm512_set1_ps(log2_of_e));
      _mm512_store_ps(all.binary_max + i, binary_max);
      _mm512_store_ps(all.staged_max + i,
                      _mm512_mul_ps(binary_max, _mm512_set1_ps(StagedPower::of_exponent)));
    }
    for (index_t i = 0; i < (p.rows + lanes - 1) / lanes * lanes * lanes; ++i) all.part[i] = 0;
    Strip strip = {};
    strip.a = p.a.data;
    strip.a_row = p.a.row;
    strip.a_depth = p.a.depth;
    strip.b_panel = p.b.panel;
    strip.b_row = p.b.row;
    strip.depth = p.depth;
    Waiting waiting = {};
    const bool overlaps = p.depth >= Tiles::template least_terms_with_work<max_rows, 2, Waiting>;
    const index_t in_tiles = !overlaps ? 0 : p.rows / max_rows * max_rows;
    for (index_t key = 0; key < p.cols; key += nr) {
      strip.b = p.b.row_of(key / nr, 0);
      const Panel panel = {p.cols - key, Base::binary(weights.scale), weights.dst + key / 2,
                           weights.dst_stride};
      if (panel.keys < nr) {
        waiting.finish();
        weigh<false>(strip, panel, p.rows, &all);
      } else if (in_tiles > 0) {
        weigh_overlapped(strip, panel, in_tiles, &all, &waiting);
        weigh_last<max_rows - 1, true>(strip, panel, in_tiles, p.rows, &all);
      } else {
        weigh<true>(strip, panel, p.rows, &all);
      }
    }
    waiting.finish();
    return Base::add_parts(all.part, p.rows, weights.row_sum);
  }
};

}  // namespace
}  // namespace ioattn::kernels
