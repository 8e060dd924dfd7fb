#pragma once

#include <optional>

#include "base/problem.hpp"
#include "base/schedule.hpp"

// What schedules cost at word level: their blocks shrunk to single words wherever that keeps more
// rows in a fast memory of M words, and block sizes searched for the least I/O at that M. These are
// the upper bounds that lower bounds are held against; what the library runs is priced by
// schedule_cost.hpp.
//
// O and LSE are inputs of the backward pass, except for naive, paper_small and resident, which
// compute what they need. tie other than none means that A2 and A3 are the same memory; only the
// schedules that say so gain from it. Scalars (a running maximum, one exponential) are not counted.
// Sizes and M at least 1; no value where M is too small. For dv != d the formulas are those of dv =
// d with the widths substituted.
namespace ioattn::theory::word_level {

struct Words {
  index_t reads = 0;
  index_t writes = 0;

  index_t total() const { return reads + writes; }
  bool operator==(const Words&) const = default;
};
using Cost = std::optional<Words>;

// Paper, Alg. 1: everything resident.
Cost naive_backward(const LayerShape& shape, index_t M);

// Paper, Alg. 2-6, and Saha and Ye: B x B blocks, B = floor(sqrt(M / 4)).
Cost paper_small_backward(const LayerShape& shape, index_t M);
Cost paper_small_forward(const LayerShape& shape, index_t M);

// Paper, Alg. 7-9. Nominal: B_r = min{ceil(M / 4d), d}, whether or not it fits. Otherwise the
// largest B that fits, with B_r = min{B, d}, B_c = B; swapped: B_r = B, B_c = min{B, d}.
enum class Caps : std::uint8_t { as_printed, swapped };
Words paper_large_backward_nominal(const LayerShape& shape, index_t M);
Cost paper_large_backward(const LayerShape& shape, index_t M, Caps caps = Caps::as_printed);
// Its forward pass, the order of FlashAttention-2: the largest square block that fits.
Cost paper_large_forward(const LayerShape& shape, index_t M);

// Rows of S, G, U (forward: S, sum of f A3) resident, keys streamed once per row block, once for
// both uses if tied. Backward: the less of S, G, dX inside the stream and as products of their own.
Cost row_stream_backward(const LayerShape& shape, index_t M);
Cost row_stream_forward(const LayerShape& shape, index_t M);

// q in memory, rows of S and U resident that share one stream of A2, S and U inside the stream or
// through memory; half_dim: the inner dimension in two halves, S, U, q, first scores and p in
// memory, no value for d = 1.
Cost q_stored_backward(const LayerShape& shape, index_t M, Form form = Form::g);
Cost half_dim_backward(const LayerShape& shape, index_t M, Form form = Form::g);

// X, dX and rows of A1, G resident, keys streamed once per row block, once for both uses if tied;
// A2 X^T is recomputed.
Cost weight_resident_backward(const LayerShape& shape, index_t M);

// A2, h, X and dX resident, rows of A1 and dO streamed: every word moved once, also if tied.
Cost resident_backward(const LayerShape& shape, index_t M);

// One output tile resident, one product after another, f and p in memory; tied (form g): score and
// q tiles side by side, only p in memory.
Cost stationary_backward(const LayerShape& shape, index_t M, Form form = Form::g);
Cost stationary_forward(const LayerShape& shape, index_t M, Form form = Form::g);

// Rows of S, then of Z = f A3 (h: of O) resident, scores in memory in between.
Cost score_stored_forward(const LayerShape& shape, index_t M, Form form = Form::g);

// A score and a q tile resident, d streamed, U in memory, nothing of n x m. parked: the score tile
// waits in memory while the q tile is computed.
enum class ScoreTile : std::uint8_t { resident, parked };
Cost tile_fused_backward(const LayerShape& shape, index_t M, ScoreTile score_tile);

// A score tile resident, S, A2, h and O stream past.
Cost tile_fused_forward(const LayerShape& shape, index_t M);

// The schedule at its best, in any form; paper_large with blocks that fit. No value where the pass
// does not exist or M is too small.
Cost least_cost(Pass pass, Schedule schedule, const LayerShape& shape, index_t M);

}  // namespace ioattn::theory::word_level
