#pragma once

#include "base/mask.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {

// Queries that see no more keys than this are few, or their weights are small.
constexpr index_t few_keys = 64;

// A tile of f and q, rows of queries by keys, and LSE of the queries.
struct ScoreRows {
  const Range &queries, &keys;
  const float *f, *q;
  index_t stride;
  const float* lse;
  // As in the layer problem, whose LSE may be that of a pass that multiplied in f32: weights then
  // miss 1 by more than their rounding.
  bool no_other_call_has_keys = false;
};

// The deltas of a tile's queries, where O is stored in 16 bits. rowsum(O o dO) has the rounding of
// O in it, and where few keys have large weights p = f o (q - delta) is a small difference: there
// delta is the sum of f o q instead, if the tile has all the m keys that the query sees and their
// weights are the whole of its softmax, or no other call has a part in it. Returns `delta`, or
// `refined`, as long, where there is such a query. The same for every tile that has these keys.
const float* refined_deltas(const kernels::KernelTable<float>& kernels, const Mask& mask, index_t m,
                            const ScoreRows& tile, const float* delta, float* refined);

}  // namespace ioattn::schedules
