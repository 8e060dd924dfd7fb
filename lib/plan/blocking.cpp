#include "plan/blocking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plan/blocking_stationary.hpp"
#include "plan/product_blocks.hpp"
#include "theory/io_cost.hpp"

namespace ioattn::plan {
namespace {

index_t footprint(Pass pass, Schedule schedule, const LayerShape& shape, const Blocks& blocks) {
  return theory::io_cost(pass, schedule, shape, blocks).total().footprint;
}

index_t longest_side(const LayerShape& shape) {
  return std::max({shape.n, shape.m, shape.d, shape.dv});
}

// The largest x in [1, limit] that satisfies a predicate which is true up to some x; 0 if none
// does.
template <class Predicate>
index_t largest(index_t limit, Predicate fits) {
  index_t low = 0, high = limit;
  while (low < high) {
    const index_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// A number of rows or columns cut to a multiple of the register tile if it reaches one.
index_t whole_tiles(index_t size, index_t tile) {
  return size >= tile ? round_down(size, tile) : size;
}

Blocks unit_blocks(Form form) {
  Blocks blocks;
  blocks.r = blocks.c = blocks.rho = blocks.w = blocks.o = blocks.a = blocks.b = 1;
  blocks.form = form;
  if (form == Form::h) blocks.h = {1, 1, 1};
  return blocks;
}

// ---- the paper's schedules

// Side of the paper's square blocks, sqrt(M) / 2: three blocks and two vectors fit from M = 5 on.
index_t paper_side(index_t M) {
  index_t side = static_cast<index_t>(std::sqrt(static_cast<double>(M) / 4));
  while (4 * side * side > M) --side;
  while (4 * (side + 1) * (side + 1) <= M) ++side;
  return std::max<index_t>(side, 1);
}

// Smallest side of the backward pass's tiles. dX is one sum of (n / r)(m / c) terms per entry: with
// tiles near 1 x 1 its rounding errors would add up to far more than the other schedules', and T A2
// would cost d^2 multiply-adds per score. The paper's own sides are d / 4 and more.
constexpr index_t least_large_side = 8;

Blocks large_blocks(Pass pass, const LayerShape& shape, index_t side) {
  Blocks blocks;
  blocks.r = pass == Pass::backward ? std::min(side, shape.d) : side;
  blocks.c = side;
  return blocks;
}

Blocks choose_large(Pass pass, bool literal, const LayerShape& shape, index_t M) {
  if (literal) {
    Blocks blocks = large_blocks(pass, shape, ceil_div(M, 4 * shape.d));
    blocks.literal = true;
    return blocks;
  }
  const index_t side = largest(longest_side(shape), [&](index_t x) {
    return footprint(pass, Schedule::paper_large, shape, large_blocks(pass, shape, x)) <= M;
  });
  return large_blocks(pass, shape, side);
}

Blocks choose_naive(const LayerShape& shape, index_t M) {
  Blocks resident;
  if (footprint(Pass::backward, Schedule::naive, shape, resident) <= M) return resident;
  Blocks blocks;
  blocks.r = 1;
  blocks.c = std::clamp<index_t>((M - 3) / 2, 1, longest_side(shape));
  return blocks;
}

// ---- row_stream

// Threads divide the rows in multiples of rho: a longer one would leave cores idle on short
// problems.
constexpr index_t longest_rho = 64;

// The streamed blocks, which live beside the resident rows in phases that are not the largest.
void widen_streams(Pass pass, const LayerShape& shape, index_t M, const TileShape& tile,
                   Blocks* blocks) {
  const auto fits = [&](const Blocks& trial) {
    return footprint(pass, Schedule::row_stream, shape, trial) <= M;
  };
  const auto widen = [&](index_t Blocks::*size, index_t limit, index_t multiple) {
    const index_t most = largest(limit, [&](index_t x) {
      Blocks trial = *blocks;
      trial.*size = x;
      return fits(trial);
    });
    blocks->*size = whole_tiles(std::max<index_t>(most, 1), multiple);
  };
  widen(&Blocks::w, std::max(shape.d, shape.dv), tile.rows);
  widen(&Blocks::o, shape.n, 1);
  // dX square first, so that neither side is cut to one row.
  const index_t side = largest(shape.d, [&](index_t x) {
    Blocks trial = *blocks;
    trial.a = trial.b = x;
    return fits(trial);
  });
  blocks->b = whole_tiles(std::max<index_t>(side, 1), tile.cols);
  widen(&Blocks::a, shape.d, tile.rows);
}

// Estimated time in multiply-adds. The products whose sums are as long as a block are U (or Z, O)
// over c keys and dX over rho rows; the others sum over d. Columns of a tile beyond its queries are
// wasted lanes.
double row_stream_time(Pass pass, const LayerShape& shape, const Blocks& blocks,
                       const TileShape& tile) {
  const index_t words = theory::io_cost(pass, Schedule::row_stream, shape, blocks).total().words();
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d);
  const index_t used = std::min(blocks.rho, shape.n);
  const double lanes = static_cast<double>(round_up(used, tile.cols)) / static_cast<double>(used);
  return fma_per_word * static_cast<double>(words) +
         n * m * d * (1 / efficiency(std::min(blocks.c, shape.m)) + 2 * lanes) +
         n * d * d / efficiency(used);
}

// Sub-blocks of whole panels, powers of two below a panel, and an even division of the rows that
// fit.
std::vector<index_t> rho_candidates(const TileShape& tile, index_t rows) {
  std::vector<index_t> list;
  for (index_t rho = longest_rho; rho >= tile.cols; rho -= tile.cols) list.push_back(rho);
  for (index_t rho = longest_rho; rho >= 1; rho /= 2) list.push_back(rho);
  if (rows > 0) list.push_back(ceil_div(rows, ceil_div(rows, longest_rho)));
  return list;
}

Blocks choose_row_stream(Pass pass, Form form, const LayerShape& shape, index_t M,
                         const TileShape& tile) {
  Blocks best = unit_blocks(form);
  if (form == Form::h) best.h = choose_product({shape.m, shape.d, shape.dv}, M);
  const Blocks smallest = best;
  double least = std::numeric_limits<double>::infinity();
  const auto most_rows = [&](Blocks trial, index_t rho) {
    return largest(shape.n, [&](index_t r) {
      trial.r = r;
      trial.rho = std::min(rho, r);
      return footprint(pass, Schedule::row_stream, shape, trial) <= M;
    });
  };
  for (index_t c = 256; c >= 1; c /= 2) {
    if (c > 1 && c / 2 >= shape.m) continue;
    Blocks trial = smallest;
    trial.c = c;
    for (const index_t rho : rho_candidates(tile, most_rows(trial, longest_rho))) {
      index_t most = most_rows(trial, rho);
      if (most < std::min(rho, shape.n)) continue;
      if (most < shape.n) most = round_down(most, rho);
      const index_t passes = ceil_div(shape.n, most);
      trial.rho = rho;
      trial.r = std::min(most, round_up(ceil_div(shape.n, passes), rho));
      const double time = row_stream_time(pass, shape, trial, tile);
      if (time < least) {
        least = time;
        best = trial;
      }
    }
  }
  widen_streams(pass, shape, M, tile, &best);
  return best;
}

}  // namespace

index_t least_fast_memory(const Variant& variant, const LayerShape& shape) {
  const auto [pass, schedule, form, products] = variant;
  Blocks blocks = unit_blocks(form);
  if (schedule == Schedule::paper_large) {
    blocks = large_blocks(pass, shape, pass == Pass::backward ? least_large_side : 1);
  } else if (schedule == Schedule::stationary || schedule == Schedule::score_stored) {
    blocks = least_stationary(variant, shape);
  }
  const index_t least = footprint(pass, schedule, shape, blocks);
  // A pass whose results another one needs may take a word more: maxima and sums for LSE.
  return schedule == Schedule::stationary && pass == Pass::backward
             ? std::max(least, least_fast_memory({Pass::forward, schedule, form}, shape))
             : least;
}

bool choose_blocks(const Variant& variant, bool literal, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks) {
  const auto [pass, schedule, form, products] = variant;
  literal = literal && schedule == Schedule::paper_large;
  if (!literal && M < least_fast_memory(variant, shape)) return false;
  switch (schedule) {
    case Schedule::naive: *blocks = choose_naive(shape, M); return true;
    case Schedule::paper_small:
      *blocks = {};
      blocks->r = blocks->c = paper_side(M);
      return true;
    case Schedule::paper_large: *blocks = choose_large(pass, literal, shape, M); return true;
    case Schedule::row_stream: *blocks = choose_row_stream(pass, form, shape, M, tile); return true;
    case Schedule::stationary:
    case Schedule::score_stored: *blocks = choose_stationary(variant, shape, M); return true;
  }
  return false;
}

}  // namespace ioattn::plan
