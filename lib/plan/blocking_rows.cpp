#include "plan/blocking_rows.hpp"

#include <limits>
#include <vector>

#include "plan/block_search.hpp"
#include "plan/product_blocks.hpp"

namespace ioattn::plan {
namespace {

// Threads divide the rows in multiples of rho: a longer one would leave cores idle on short
// problems.
constexpr index_t longest_rho = 64;

class RowBlocks {
 public:
  RowBlocks(const Variant& variant, const LayerShape& shape, index_t M, const TileShape& tile)
      : variant_(variant), shape_(shape), M_(M), tile_(tile) {}

  Blocks choose() const {
    Blocks best = unit_blocks(variant_);
    choose_products(&best);
    const Blocks smallest = best;
    double least = std::numeric_limits<double>::infinity();
    for (index_t c = 256; c >= 1; c /= 2) {
      if (c > 1 && c / 2 >= shape_.m) continue;
      Blocks trial = smallest;
      trial.c = c;
      for (const index_t rho : rho_candidates(most_rows(trial, longest_rho))) {
        index_t most = most_rows(trial, rho);
        if (most < std::min(rho, shape_.n)) continue;
        if (most < shape_.n) most = round_down(most, rho);
        const index_t passes = ceil_div(shape_.n, most);
        trial.rho = rho;
        trial.r = std::min(most, round_up(ceil_div(shape_.n, passes), rho));
        const double estimate = time(trial);
        if (estimate < least) {
          least = estimate;
          best = trial;
        }
      }
    }
    widen_streams(&best);
    return best;
  }

 private:
  bool fits(const Blocks& blocks) const {
    return footprint(variant_.pass, variant_.schedule, shape_, blocks) <= M_;
  }

  index_t most_rows(Blocks trial, index_t rho) const {
    return largest(shape_.n, [&](index_t r) {
      trial.r = r;
      trial.rho = std::min(rho, r);
      return fits(trial);
    });
  }

  // The products are phases of their own, so each has the whole of M.
  void choose_products(Blocks* blocks) const {
    const auto [n, m, d, e, tie] = shape_;
    const auto choose = [&](const char* name, ProductBlocks Blocks::*product,
                            const ProductShape& size, bool key_major = false) {
      const KernelStep step =
          key_major ? KernelStep{tile_.cols, tile_.rows} : KernelStep{tile_.rows, tile_.cols};
      if (uses(variant_, name)) blocks->*product = choose_product(size, M_, {.step = step});
    };
    choose("s", &Blocks::s, {n, d, d});
    choose("g", &Blocks::g, {n, e, d});
    choose("h", &Blocks::h, {m, d, e});
    const bool forward = variant_.pass == Pass::forward;
    choose("x", &Blocks::x, forward ? ProductShape{n, d, e} : ProductShape{d, n, d});
    const index_t first = std::max<index_t>(d / 2, 1);  // half_dim
    choose("f", &Blocks::f, {n, first, m}, true);
    choose("q", &Blocks::q, {n, variant_.form == Form::h ? e : d, m}, true);
    choose("u", &Blocks::u, {n, m, first});
  }

  // Sub-blocks of whole panels, powers of two below a panel, and an even division of the rows that
  // fit.
  std::vector<index_t> rho_candidates(index_t rows) const {
    std::vector<index_t> list;
    for (index_t rho = longest_rho; rho >= tile_.cols; rho -= tile_.cols) list.push_back(rho);
    for (index_t rho = longest_rho; rho >= 1; rho /= 2) list.push_back(rho);
    if (rows > 0) list.push_back(ceil_div(rows, ceil_div(rows, longest_rho)));
    return list;
  }

  // Estimated time in multiply-adds. The products whose sums are as long as a block are U (or Z, O)
  // over c keys and dX over rho rows; the others sum over d. Columns of a tile beyond its queries
  // are wasted lanes.
  double time(const Blocks& blocks) const {
    const index_t words =
        theory::io_cost(variant_.pass, variant_.schedule, shape_, blocks).total().words();
    const double n = static_cast<double>(shape_.n), m = static_cast<double>(shape_.m);
    const double d = static_cast<double>(shape_.d);
    const bool halved = variant_.schedule == Schedule::half_dim;
    const double width = halved ? static_cast<double>(shape_.d - shape_.d / 2) : d;
    const double score_products = variant_.schedule == Schedule::row_stream ? 2 : 1;
    const index_t used = std::min(blocks.rho, shape_.n);
    const double lanes =
        static_cast<double>(round_up(used, tile_.cols)) / static_cast<double>(used);
    const double dx = variant_.products == Products::fused ? n * d * d / efficiency(used) : 0;
    return fma_per_word * static_cast<double>(words) +
           n * m * width * (1 / efficiency(std::min(blocks.c, shape_.m)) + score_products * lanes) +
           dx;
  }

  // The streamed blocks, which live beside the resident rows in phases that are not the largest.
  void widen_streams(Blocks* blocks) const {
    const auto widen = [&](index_t Blocks::*size, index_t limit, index_t multiple) {
      const index_t most = largest(limit, [&](index_t x) {
        Blocks trial = *blocks;
        trial.*size = x;
        return fits(trial);
      });
      blocks->*size = whole_tiles(std::max<index_t>(most, 1), multiple);
    };
    if (!uses(variant_, "w")) return;
    widen(&Blocks::w, std::max(shape_.d, shape_.dv), tile_.rows);
    widen(&Blocks::o, shape_.n, 1);
    if (!uses(variant_, "a")) return;
    // dX square first, so that neither side is cut to one row.
    const index_t side = largest(shape_.d, [&](index_t x) {
      Blocks trial = *blocks;
      trial.a = trial.b = x;
      return fits(trial);
    });
    blocks->b = whole_tiles(std::max<index_t>(side, 1), tile_.cols);
    widen(&Blocks::a, shape_.d, tile_.rows);
  }

  Variant variant_;
  LayerShape shape_;
  index_t M_;
  TileShape tile_;
};

}  // namespace

Blocks choose_row_blocks(const Variant& variant, const LayerShape& shape, index_t M,
                         const TileShape& tile) {
  return RowBlocks(variant, shape, M, tile).choose();
}

}  // namespace ioattn::plan
