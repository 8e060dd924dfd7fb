#pragma once

#include "kernels/generic/x86_bf16_weights.hpp"

// Softmax weights and their gradients from scores and q that stay in L1. See scalar_vector.hpp
// about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// Scores and q of some queries and a panel of keys at a time.
template <int max_rows>
struct X86Bf16Gradients : X86Bf16Weights<max_rows> {
  static constexpr PairKernels table() {
    PairKernels pairs = X86Bf16Weights<max_rows>::table();
    pairs.gradients = gradients;
    return pairs;
  }

 private:
  using Pairs = X86Bf16Pairs<max_rows>;
  using Product = kernels::Product<float, bf16x2>;
  using V = XsimdVector<float>;
  using Tiles = RegisterTiles<V, 2, Bf16Terms>;
  static constexpr index_t nr = Pairs::nr, lanes = Pairs::part_lanes;
  static constexpr index_t most_rows = 64;
  // Scores and q of so many are made in turns.
  static constexpr index_t group_rows = index_t{4} * max_rows;

  struct alignas(64) Scratch {
    float scores[most_rows * nr], q[most_rows * nr];  // of two groups, or of all rows
    GradientRows<most_rows, nr> made;
  };

  // Scores and q of a group and a panel, which become weights and gradients while the next ones are
  // made: half a panel of two rows a piece.
  struct Waiting {
    static constexpr index_t pieces = 4, stages = 4;  // beside a tile
    ScorePairs first;
    index_t done;  // pieces

    struct State {
      StagedPower weight[2];
      __m512 f[2];
    };
    // The first of a piece's two rows, and of its lanes.
    IOATTN_INLINE index_t row_of(index_t piece) const { return (done + piece) / 2 * 2; }
    IOATTN_INLINE index_t lane_of(index_t piece) const { return (done + piece) % 2 * lanes; }
    static IOATTN_INLINE void end(const State&) {}
    template <int stage>
    IOATTN_INLINE void run(index_t piece, State* state) const {
      const PowerConstants& c = power_constants_in_memory();
      const index_t row = row_of(piece), lane = lane_of(piece), at = row * nr + lane;
      if constexpr (stage == 0) {
        const __m512 scale = _mm512_set1_ps(first.scale);
#pragma GCC unroll 2
        for (index_t i = 0; i < 2; ++i) {
          const __m512 lse = _mm512_set1_ps(first.shifts[row + i].lse);
          const __m512 scores = _mm512_load_ps(first.scores + at + i * nr);
          const __m512 exponents =
              exponents_of_gradients(scores, scale, lse, StagedPower::of_exponent);
          state->weight[i].begin(exponents, _mm512_setzero_ps(), c);
        }
      } else if constexpr (stage == 1) {
        state->weight[0].go_on(c);
        state->weight[1].go_on(c);
      } else if constexpr (stage == 2) {
        state->f[0] = state->weight[0].end(c);
        state->f[1] = state->weight[1].end(c);
        _mm512_storeu_si512(first.f_by_rows + row / 2 * first.stride + lane,
                            Pairs::interleaved(Pairs::narrow(state->f[0], state->f[1])));
      } else {
        const __m512 scale = _mm512_set1_ps(first.scale);
        __m512 p[2];
#pragma GCC unroll 2
        for (index_t i = 0; i < 2; ++i) {
          const __m512 delta = _mm512_set1_ps(first.shifts[row + i].delta);
          const __m512 q = _mm512_fmsub_ps(_mm512_load_ps(first.q + at + i * nr), scale, delta);
          p[i] = _mm512_mul_ps(state->f[i], q);
        }
        const __m512i rounded = Pairs::narrow(p[0], p[1]);
        _mm512_storeu_si512(first.p_by_rows + row / 2 * first.stride + lane,
                            Pairs::interleaved(rounded));
        bf16x2* const by_cols = first.p_by_cols + row * first.stride + lane / 2;
        _mm256_storeu_si256((__m256i*)by_cols, _mm512_castsi512_si256(rounded));
        _mm256_storeu_si256((__m256i*)(by_cols + first.stride),
                            _mm512_extracti64x4_epi64(rounded, 1));
      }
    }
  };
  static_assert(2 * group_rows / max_rows * Waiting::pieces == group_rows / 2 * (nr / lanes));

  static IOATTN_INLINE void multiply(const Product& all, index_t row, index_t rows, index_t col,
                                     float* c) {
    Product p;
    p.rows = rows;
    p.cols = nr;
    p.depth = all.depth;
    p.a = {all.a.at(row, 0), all.a.row, all.a.depth};
    p.b = {all.b.row_of(col / nr, 0), all.b.panel, all.b.row};
    p.c = {c, nr, nr};
    p.padded = true;
    Pairs::table.product(p);
  }

  // At most most_rows rows, and panels from column col on.
  static IOATTN_INLINE void of_rows(const Product& scores, const Product& q, const PairGradients& g,
                                    index_t row, index_t rows, index_t col, Scratch* scratch) {
    scratch->made.begin(g, row, rows);
    for (; col < scores.cols; col += nr) {
      multiply(scores, row, rows, col, scratch->scores);
      multiply(q, row, rows, col, scratch->q);
      ScorePairs made = scratch->made.panel(scratch->scores, scratch->q, col, scores.cols - col);
      take_rows<Pairs, nr>(&made, rows);
    }
  }

  // A tile of a product, beside what waits, if anything does.
  static IOATTN_KERNEL void overlapped_tile(const Product& p, index_t row, index_t col, float* made,
                                            const Waiting& waiting) {
    typename Tiles::Strip s = {};
    s.b = p.b.row_of(col / nr, 0);
    s.b_panel = p.b.panel;
    s.b_row = p.b.row;
    s.a_row = p.a.row;
    s.depth = p.depth;
    const bf16x2* a = p.a.at(row, 0);
    const auto store = [made](int i, const V(&sums)[2]) {
      sums[0].store(made + i * nr);
      sums[1].store(made + i * nr + lanes);
    };
    if (waiting.first.scores != nullptr) {
      Tiles::template tile<max_rows, 2, false>(s, a, store, waiting);
    } else {
      Tiles::template tile<max_rows, 2, false>(s, a, store);
    }
  }
  static IOATTN_INLINE void overlapped_group(const Product& p, index_t row, index_t col,
                                             float* made, Waiting* waiting) {
    for (index_t i = 0; i < group_rows; i += max_rows, waiting->done += Waiting::pieces)
      overlapped_tile(p, row + i, col, made + i * nr, *waiting);
  }

  // Whole groups, at most most_rows rows, and the first `cols` columns, whole panels.
  static IOATTN_INLINE void of_groups(const Product& scores, const Product& q,
                                      const PairGradients& g, index_t row, index_t rows,
                                      index_t cols, Scratch* scratch) {
    scratch->made.begin(g, row, rows);
    Waiting waiting = {};
    index_t turn = 0;
    for (index_t col = 0; col < cols; col += nr)
      for (index_t group = 0; group < rows; group += group_rows) {
        float* const of_scores = scratch->scores + turn * group_rows * nr;
        float* const of_q = scratch->q + turn * group_rows * nr;
        turn = 1 - turn;
        overlapped_group(scores, row + group, col, of_scores, &waiting);
        overlapped_group(q, row + group, col, of_q, &waiting);
        ScorePairs made = scratch->made.panel(of_scores, of_q, col, nr);
        made.shifts += group;
        made.f_by_rows += group / 2 * made.stride;
        made.p_by_rows += group / 2 * made.stride;
        made.p_by_cols += group * made.stride;
        made.rows = group_rows;
        waiting = {made, 0};
      }
    take_rows<Pairs, nr>(&waiting.first, group_rows);
  }

  // Of more terms, a panel of keys and one of values leave L1 while groups take turns.
  static bool hides_work(const Product& p) {
    return p.a.depth == 1 &&
           p.depth >= Tiles::template least_terms_with_work<max_rows, 2, Waiting> && p.depth <= 96;
  }

  static IOATTN_KERNEL void gradients(const Product& scores, const Product& q,
                                      const PairGradients& gradients) {
    const typename Pairs::WithoutDenormals mode;
    Scratch scratch;
    const bool overlaps = hides_work(scores) && hides_work(q);
    const index_t panels = overlaps ? scores.cols / nr * nr : 0;
    for (index_t row = 0, rows; row < scores.rows; row += rows) {
      rows = scores.rows - row < most_rows ? scores.rows - row : most_rows;
      if (panels > 0 && rows >= group_rows) {
        rows = rows / group_rows * group_rows;
        of_groups(scores, q, gradients, row, rows, panels, &scratch);
        if (panels < scores.cols) of_rows(scores, q, gradients, row, rows, panels, &scratch);
      } else {
        of_rows(scores, q, gradients, row, rows, 0, &scratch);
      }
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
