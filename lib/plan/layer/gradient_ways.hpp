#pragma once

#include <vector>

#include "plan/blocks/fast_memory.hpp"
#include "plan/layer/planner.hpp"
#include "theory/gradients_cost.hpp"

// How gradients may be computed: the passes that a set takes, and their blocks in a memory.
namespace ioattn::plan {

struct Way {
  Schedule schedule = Schedule::row_stream;  // of the pass over the queries
  Form form = Form::g;
  bool one_pass = false;
  Schedule by_keys = Schedule::col_stream;
};

// Those that exist for a set that dX by a pass of its own is not enough for, and that the request
// lets be taken, whatever memory they need.
std::vector<Way> ways_of(const LayerRequest& request, const GradientSet& set);

// Blocks of one word in every phase: where the least fast memory is needed.
LayerBlocks least_blocks(const Way& way);

// Blocks of the phases of a set, which each has the memory for itself. The thin products stay in
// the inner one.
LayerBlocks choose_gradient_blocks(const LayerShape& shape, const GradientSet& set, const Way& way,
                                   const FastMemory& memory, const TileShape& tile);

// Multiply-adds and words at one weight each, but for the passes that outer memory makes faster.
double gradients_time(const LayerRequest& request, const GradientSet& set,
                      const LayerBlocks& blocks, const FastMemory& memory);

// Of one entry, its scale aside.
theory::ScheduleCost cost_of(const LayerRequest& request, const GradientSet& set,
                             const LayerBlocks& blocks);

// Scratch memory of a way.
index_t scratch_bytes(const LayerRequest& request, const GradientSet& set, const Way& way);

// Of dX by a pass of its own, with what it takes beside the pass.
LayerRequest request_alone(const LayerRequest& request, const GradientSet& set);

}  // namespace ioattn::plan
