#pragma once

#include <array>
#include <cassert>

#include "base/io_cost.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::theory {

// Words of a number that passes through memory: of the operands of the layer problem, of all else,
// which is resident in as many, of X, which a scale makes another one, and of factors, h and what
// makes S and h while it is resident, which are in 16 bits where products are of pairs. Operands in
// 16 bits weigh 1 word of 2 bytes, f32 weighs 2.
struct Weights {
  index_t operand = 1, sum = 1, x = 1, factor = 1;

  constexpr bool are_of_halves() const { return sum > operand; }
  constexpr Weights by_pairs() const { return {operand, sum, operand, operand}; }
};
constexpr Weights weights_of(DType dtype, bool scaled = false) {
  return is_half(dtype) ? Weights{1, 2, scaled ? 2 : 1, 2} : Weights{};
}
// Words of a resident number.
constexpr index_t resident_words(DType dtype) { return weights_of(dtype).sum; }

struct PhaseCost {
  const char* name = "";
  IoCost cost;
};

// Cost of a schedule phase by phase. The total adds reads, writes and created words and takes the
// largest footprint.
struct ScheduleCost {
  static constexpr int max_phases = 20;
  std::array<PhaseCost, max_phases> phases{};
  int phase_count = 0;

  void add(const char* name, const IoCost& cost) {
    assert(phase_count < max_phases);
    phases[std::size_t(phase_count++)] = {name, cost};
  }
  IoCost total() const;
};

// Exact I/O of a schedule at block level (reference in lib/theory/README.md), equal to what an
// observer counts. The blocks must be positive where the schedule uses them; sizes must be at
// least 1.
// Pass::backward_keys: all key gradients of the form. Weights are for schedules that take operands
// in 16 bits (takes_dtype); tile_fused then multiplies pairs.
ScheduleCost io_cost(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks,
                     const Weights& weights = {});

// A batch of a pass, and whether its scores are scaled.
struct Batch {
  index_t entries = 1;
  bool scaled = false;
};
inline Batch batch_of(const LayerProblem& problem) { return {problem.batch, problem.scale != 1}; }

// Phase "scale": a scaled copy of X, element by element, and, backward, dX in place.
void add_scale(const LayerShape& shape, const Batch& batch, bool of_gradient, DType dtype,
               ScheduleCost* cost);
// The phases of one entry, each as often as there are entries.
void add_entries(const ScheduleCost& entry, const Batch& batch, ScheduleCost* cost);
// io_cost of a forward pass over a batch.
ScheduleCost forward_cost(Schedule schedule, const LayerShape& shape, const Blocks& blocks,
                          const Batch& batch, DType dtype = DType::f32);

// Multiply-adds that the schedule executes, exactly; under a mask those of visible pairs.
index_t fma_count(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks);

}  // namespace ioattn::theory
