#include "plan/times/kernel_time.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/key_products.hpp"
#include "plan/blocks/product_blocks.hpp"

namespace ioattn::plan {
namespace {

// Multiply-adds in the time that softmax takes for a score, and backward its weight and gradient.
// AVX-512 looks powers up; AVX2 turns a double's exponent into an integer the long way
// (lib/kernels/README.md). AVX2's 18 is of before it looked powers of f32 up, which takes some 3
// off on Zen 3: to be measured where CPUs have both.
double softmax_time(const TileShape& tile, DType dtype) {
  const bool is_double = dtype == DType::f64;
  if (tile.isa == Isa::avx2) return is_double ? 26 : 18;
  return is_double ? 14 : 11;
}

class Kernels {
 public:
  Kernels(const LayerShape& head, DType dtype, const TileShape& tile, index_t least_columns)
      : head_(head),
        tile_(tile),
        least_columns_(least_columns),
        half_(tile.computed(1)),
        softmax_(softmax_time(tile, dtype)) {}

  // Scores have queries for lanes, sums over keys have columns.
  double rows(Pass pass, const Blocks& blocks) const {
    // Tiles have no rows that stay.
    const index_t lanes = blocks.r > 0 ? std::min(blocks.rho, blocks.r) : blocks.rho;
    const double pairs = computed_pairs(head_.m, head_.n, lanes, half_);
    const index_t keys = std::min(blocks.c, head_.m);
    if (pass == Pass::forward) {
      const double sums = sum(head_.dv, keys);
      if (head_.n <= tile_.few()) return few_scores() + sums;
      const double scores = computed_pairs(head_.m, head_.n, lanes, least_columns_);
      return scores * over(head_.d) + pairs * softmax_ + sums;
    }
    return pairs * (over(head_.d) + over(head_.dv) + softmax_) + sum(head_.d, keys);
  }
  // Scores have keys for lanes, all sums have columns.
  double keys(const Blocks& blocks, KeyPassKind kind) const {
    const index_t keys = std::min(blocks.c, head_.m), queries = std::min(blocks.rho, head_.n);
    const double pairs = computed_pairs(head_.n, head_.m, keys, half_);
    const auto scores = [&](index_t depth) { return pairs * over(depth); };
    const auto sums = [&](Over terms, index_t width) {
      return sum(width, terms == Over::queries ? queries : keys);
    };
    return pairs * softmax_ + over_key_products(kind, head_.d, head_.dv, scores, sums);
  }

 private:
  // Keys are lanes, and are transposed in the time of four queries.
  double few_scores() const {
    const double n = static_cast<double>(head_.n), m = static_cast<double>(head_.m);
    return m * ((4 + n) * over(head_.d) + n * softmax_);
  }
  // Of a score.
  static double over(index_t depth) { return static_cast<double>(depth) / efficiency(depth); }
  // By blocks of columns, each a multiple of so many that are computed.
  double computed_pairs(index_t rows, index_t columns, index_t block, index_t least) const {
    block = std::clamp<index_t>(block, 1, columns);
    const index_t whole = columns / block, last = columns % block;
    const auto time = [&](index_t some) { return time_of_columns(round_up(some, least), tile_); };
    return static_cast<double>(rows) *
           (static_cast<double>(whole) * time(block) + (last > 0 ? time(last) : 0));
  }
  // Of all pairs of a query and a key, in sums of so many terms.
  double sum(index_t width, index_t terms) const {
    if (width == 0) return 0;
    return static_cast<double>(head_.n) * static_cast<double>(head_.m) *
           time_of_columns(round_up(width, least_columns_), tile_) /
           efficiency(std::max<index_t>(terms, 1));
  }

  const LayerShape& head_;
  const TileShape& tile_;
  index_t least_columns_, half_;
  double softmax_;
};

}  // namespace

double kernel_time(const SdpaShape& shape, const std::optional<SdpaSet>& set, DType dtype,
                   const SdpaPlan& plan, index_t least_columns) {
  const LayerShape head = shape.head();
  const TileShape& tile = plan.tile;
  const Kernels kernels(head, dtype, tile, least_columns);
  const SdpaBlocks& blocks = plan.blocks;
  const bool pairs = multiplies_pairs(plan.tile.isa);
  if (!set) return pairs ? 0 : kernels.rows(Pass::forward, blocks.rows);
  double time = 0;
  if (set->query_pass(blocks)) {
    if (pairs) return 0;
    time += kernels.rows(Pass::backward, blocks.rows);
  }
  if (set->key_pass(blocks)) {
    if (pairs && blocks.by_keys == Schedule::tile_fused) return 0;
    time += kernels.keys(blocks.keys, set->key_kind(blocks));
  }
  return time;
}

}  // namespace ioattn::plan
