#pragma once

#include "base/sdpa.hpp"
#include "theory/schedule_cost.hpp"

// SDPA of operands in 16 bits. Words have 2 bytes; what is resident, LSE, delta and sums that pass
// through memory are in f32 and weigh 2. So a pass holds what it holds of a problem in f32, in
// twice the words, and moves as many words, but for what is in f32. Tiles of products of pairs are
// rounded to 16 bits besides, and what streams past them stays in 16 bits.
namespace ioattn::theory {

// Of one head of queries, without its bias.
IoCost half_forward_cost(const LayerShape& head, const Blocks& blocks, bool lse, bool pairs);
// Of all heads of queries.
IoCost half_delta_cost(const SdpaShape& shape, const Blocks& blocks);
IoCost half_query_pass_cost(const SdpaShape& shape, const SdpaSet& set, const Blocks& blocks,
                            bool pairs);
// Sums of dQ in f32 become dQ.
IoCost half_round_cost(const SdpaShape& shape, const SdpaSet& set);
// Of one head of keys, without its bias.
IoCost half_key_pass_cost(const SdpaShape& shape, const SdpaSet& set, const SdpaBlocks& blocks,
                          bool pairs);

// tile_fused's passes of the layer problem by pairs: S, in two parts, has as many words as f32, and
// gradients stay in f32.
IoCost pair_tiles_forward_cost(const LayerShape& shape, const Blocks& blocks);
IoCost pair_tiles_cost(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind);

// Words of 16 bits that tiles of products of pairs hold. `rounded_together`: sums in f32 that
// become a number in 16 bits, 2 if it is added to, 0 if none is rounded.
index_t pair_tiles_footprint(const LayerShape& head, const Blocks& blocks, KeyPassKind kind,
                             index_t rounded_together);
index_t pair_tiles_forward_footprint(const LayerShape& head, const Blocks& blocks,
                                     bool parts = false);
// The same of row_stream, forward and backward: dQ, or the gradient of a bias.
index_t pair_rows_forward_footprint(const LayerShape& head, const Blocks& blocks);
index_t pair_rows_backward_footprint(const LayerShape& head, const Blocks& blocks, bool dq,
                                     bool d_bias);

}  // namespace ioattn::theory
