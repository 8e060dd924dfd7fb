#include "plan/times/time_parts.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/sum_length.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "plan/blocks/blocking_pair_rows.hpp"
#include "plan/blocks/blocking_rows.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/blocks/key_products.hpp"
#include "plan/blocks/pair_speed.hpp"
#include "plan/blocks/tile_fused_time.hpp"
#include "plan/layer/gradient_ways.hpp"
#include "theory/block_costs.hpp"

namespace ioattn::plan {
namespace {

// About how many words kernels move between L2 and L1, M words: what of A is larger is read again
// for every panel of lanes, C is brought in and written back for every block of terms. Of single
// numbers.
class KernelWords {
 public:
  KernelWords(index_t M, const TileShape& tile, DType dtype)
      : M_(M),
        panel_(tile.cols),
        longest_(dtype == DType::f64 ? single_terms_per_accumulator<double>
                                     : single_terms_per_accumulator<float>) {}

  double product(index_t rows, index_t lanes, index_t depth) const {
    return product(rows, lanes, depth, depth);
  }
  double product(index_t rows, index_t lanes, index_t depth, index_t terms) const {
    const index_t reads = rows * depth <= M_ ? 1 : ceil_div(lanes, panel_);
    const index_t sums = ceil_div(depth, std::min(terms, longest_));
    return static_cast<double>(reads) * times(rows, depth) + times(lanes, depth) +
           static_cast<double>(sums) * tile(rows, lanes);
  }
  // What passes over a tile once.
  double tile(index_t rows, index_t lanes) const {
    return rows * lanes <= M_ / 2 ? 0 : 2 * times(rows, lanes);
  }

  double rows(Pass pass, const LayerShape& shape, const Blocks& blocks) const {
    const index_t d = shape.d, v = blocks.form == Form::h ? shape.dv : shape.d;
    const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
    const double of_sums = pass == Pass::forward
                               ? tile(c, rho) + product(v, rho, c, terms(blocks, c))
                               : product(c, rho, v) + product(d, rho, c);
    return times(ceil_div(shape.n, rho), ceil_div(shape.m, c)) *
           (product(c, rho, d, terms(blocks, d)) + of_sums);
  }
  double keys(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind) const {
    const index_t d = shape.d, v = blocks.form == Form::h ? shape.dv : shape.d;
    const index_t c = std::min(blocks.c, shape.m), rho = std::min(blocks.rho, shape.n);
    const auto score = [&](index_t depth) { return product(rho, c, depth, terms(blocks, depth)); };
    const auto sum = [&](Over over, index_t width) {
      return over == Over::queries ? product(c, width, rho) : product(rho, width, c);
    };
    return times(ceil_div(shape.n, rho), ceil_div(shape.m, c)) *
           over_key_products(kind, d, v, score, sum);
  }

 private:
  static double times(index_t x, index_t y) { return static_cast<double>(x * y); }
  // Of a sum that tile_fused makes w terms at a time.
  static index_t terms(const Blocks& blocks, index_t depth) {
    return blocks.products == Products::fused && blocks.w > 0 ? blocks.w : depth;
  }

  index_t M_, panel_, longest_;
};

// A pass: its time in a memory, at any price.
struct Phase {
  std::function<double(const FastMemory&)> time;
  double words_at_once = 1;                          // that move in the time of one
  std::function<double(index_t)> kernel_words = {};  // of an L1 of so many; null: nobody knows

  // At that price: times are linear in both.
  double words(FastMemory memory, double per_word, double per_inner_word) const {
    const auto at = [&](double outer, double inner) {
      memory.price = {Objective::time, outer, inner};
      return time(memory);
    };
    return words_at_once * (at(per_word, per_inner_word) - at(0, 0));
  }
};

TimeParts parts_of(const std::vector<Phase>& phases, const FastMemory& memory, index_t L1) {
  TimeParts parts;
  for (const Phase& phase : phases) {
    FastMemory free = memory;
    free.price = {Objective::time, 0, 0};
    const double outer = phase.words(memory, 1, 0) / phase.words_at_once;
    const double inner = phase.words(memory, 0, 1);
    parts.products += phase.time(free);
    parts.outer_time += memory.price.per_word * outer;
    parts.inner_words += inner;
    parts.inner_time += memory.price.per_inner_word * inner / phase.words_at_once;
  }
  const index_t of_L2 = memory.is_outer() ? memory.inner_M : memory.M;
  const bool are_known = std::all_of(phases.begin(), phases.end(), [](const Phase& phase) {
    return static_cast<bool>(phase.kernel_words);
  });
  if (L1 <= 0 || L1 >= of_L2 || !are_known) return parts;
  parts.kernel_words = 0;
  for (const Phase& phase : phases) parts.kernel_words += phase.kernel_words(L1);
  return parts;
}

bool is_outer(const std::string& level, const std::string& own) {
  return level == outer_level && own != outer_level;
}

Phase rows_phase(Pass pass, const LayerShape& head, const Blocks& rows, const TileShape& tile,
                 DType dtype) {
  const Variant variant = {pass, Schedule::row_stream, Form::h, Products::stored};
  return {
      [=](const FastMemory& memory) { return row_pass_time(variant, head, rows, memory, tile); }, 1,
      [=](index_t L1) { return KernelWords(L1, tile, dtype).rows(pass, head, rows); }};
}

// By pairs, operands of kernels have other sizes: what L1 sees of them is not estimated.
std::vector<Phase> phases_of(const LayerShape& head, const std::optional<SdpaSet>& set,
                             const SdpaBlocks& blocks, const TileShape& tile, DType dtype) {
  const bool pairs = multiplies_pairs(tile.isa);
  const double speed = word_speed(tile.isa);
  const Blocks &rows = blocks.rows, &keys = blocks.keys;
  std::vector<Phase> phases;
  if (!set) {
    if (forward_schedule(rows) == Schedule::tile_fused) {
      phases.push_back({[=](const FastMemory& memory) {
                          return tile_fused_forward_time(head, rows, memory, tile);
                        },
                        speed});
    } else if (pairs) {
      phases.push_back(
          {[=](const FastMemory& memory) { return pair_rows_time(head, rows, memory, tile); },
           speed});
    } else {
      return {rows_phase(Pass::forward, head, rows, tile, dtype)};
    }
    if (!pairs)
      phases[0].kernel_words = [=](index_t L1) {
        return KernelWords(L1, tile, dtype).rows(Pass::forward, head, rows);
      };
    return phases;
  }
  if (set->query_pass(blocks)) {
    if (pairs) {
      phases.push_back({[=, of = *set](const FastMemory& memory) {
                          return pair_rows_time(head, of, rows, memory, tile);
                        },
                        speed});
    } else {
      phases.push_back(rows_phase(Pass::backward, head, rows, tile, dtype));
    }
  }
  if (!set->key_pass(blocks)) return phases;
  const KeyPassKind kind = set->key_kind(blocks);
  const auto words = [=](index_t L1) {
    return KernelWords(L1, tile, dtype).keys(head, keys, kind);
  };
  if (blocks.by_keys == Schedule::tile_fused) {
    phases.push_back(
        {[=](const FastMemory& memory) { return tile_fused_time(head, keys, kind, memory, tile); },
         speed});
    if (!pairs) phases.back().kernel_words = words;
  } else {
    phases.push_back(
        {[=](const FastMemory& memory) { return col_stream_time(head, keys, kind, memory, tile); },
         1, words});
  }
  return phases;
}

// Of a plan that passes over rows, or by a schedule of its own.
double layer_time(LayerRequest request, const std::optional<GradientSet>& set,
                  const LayerPlan& plan, const FastMemory& memory) {
  const index_t words = theory::resident_words(request.problem.dtype);
  request.price = memory.price;
  request.M = words * (memory.is_outer() ? memory.inner_M : memory.M);
  request.outer_M = memory.is_outer() ? words * memory.M : 0;
  const LayerShape& shape = request.problem.shape;
  const bool alone = !set || set->is_dx_alone();
  if (!alone) return gradients_time(request, *set, plan.blocks, memory);
  request.pass = set ? Pass::backward : Pass::forward;
  Candidate pass;
  pass.schedule = plan.blocks.schedule;
  pass.blocks = plan.blocks.rows;
  pass.is_outer = memory.is_outer();
  pass.cost = theory::io_cost(request.pass, pass.schedule, shape, pass.blocks, request.weights());
  pass.fma = theory::fma_count(request.pass, pass.schedule, shape, pass.blocks);
  return predicted_time(request, pass);
}

}  // namespace

TimeParts time_parts(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                     const SdpaPlan& plan, index_t L1) {
  const index_t words = theory::resident_words(request.dtype);
  const LayerShape head = request.shape.head().without_mask();
  const bool outer = is_outer(plan.level, request.level);
  const FastMemory memory = request.memory(outer).of_time();
  TimeParts parts =
      parts_of(phases_of(head, set, plan.blocks, plan.tile, request.dtype), memory, L1 / words);
  SdpaRequest one = request;
  one.shape.batch = one.shape.heads = one.shape.kv_heads = 1;
  one.shape.bias_batch = one.shape.bias_heads = request.shape.has_bias() ? 1 : 0;
  one.shape.mask = {};
  Estimate estimate;
  estimate_costs(one, set, plan, &estimate);
  parts.outer_words = estimate.cost.total().words();
  return parts;
}

TimeParts time_parts(const LayerRequest& request, const std::optional<GradientSet>& set,
                     const LayerPlan& plan, index_t L1) {
  const index_t words = theory::resident_words(request.problem.dtype);
  const bool outer = is_outer(plan.level, request.level);
  const FastMemory memory = request.memory(outer).of_time();
  LayerRequest of_plan = request;
  of_plan.tile = plan.tile;
  Phase all = {[&](const FastMemory& in) { return layer_time(of_plan, set, plan, in); }};
  const LayerShape& shape = request.problem.shape;
  const Blocks& rows = plan.blocks.rows;
  const bool alone = !set || set->is_dx_alone();
  // Of one pass over rows: the thin products around it are few.
  if (alone && plan.blocks.schedule == Schedule::row_stream && rows.products == Products::stored) {
    all.kernel_words = [&](index_t of_L1) {
      return KernelWords(of_L1, of_plan.tile, request.problem.dtype)
          .rows(set ? Pass::backward : Pass::forward, shape, rows);
    };
  }
  TimeParts parts = parts_of({all}, memory, L1 / words);
  Estimate estimate;
  estimate_costs(request, set, plan, &estimate);
  parts.outer_words = estimate.cost.total().words();
  return parts;
}

}  // namespace ioattn::plan
