#include "plan/blocks/blocking_rows.hpp"

#include <algorithm>

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "theory/block_costs.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::plan {
namespace {

// The products are phases of their own, so each has the whole of M.
void choose_products(const Variant& variant, const LayerShape& shape, const FastMemory& memory,
                     const TileShape& tile, Blocks* blocks) {
  const auto choose = [&](const char* name, ProductBlocks Blocks::*product,
                          const ProductShape& size, bool key_major = false) {
    const KernelStep step =
        key_major ? KernelStep{tile.cols, tile.rows} : KernelStep{tile.rows, tile.cols};
    if (uses(variant, name))
      blocks->*product = choose_product(size, memory.M, {.step = step, .price = memory.price});
  };
  const index_t n = shape.n, m = shape.m, d = shape.d, e = shape.dv;
  choose("s", &Blocks::s, {n, d, d});
  choose("g", &Blocks::g, {n, e, d});
  choose("h", &Blocks::h, {m, d, e});
  const bool forward = variant.pass == Pass::forward;
  choose("x", &Blocks::x, forward ? ProductShape{n, d, e} : ProductShape{d, n, d});
  const index_t first = std::max<index_t>(d / 2, 1);  // half_dim
  choose("f", &Blocks::f, {n, first, m}, true);
  choose("q", &Blocks::q, {n, variant.form == Form::h ? e : d, m}, true);
  choose("u", &Blocks::u, {n, m, first});
}

// The streamed blocks, which live beside the resident rows in phases that are not the largest.
void widen_streams(const Variant& variant, const LayerShape& shape, index_t M,
                   const TileShape& tile, Blocks* blocks) {
  if (!uses(variant, "w")) return;
  widen(variant, shape, M, std::max(shape.d, shape.dv), tile.rows, &Blocks::w, blocks);
  widen(variant, shape, M, shape.n, 1, &Blocks::o, blocks);
  if (!uses(variant, "a")) return;
  // dX square first, so that neither side is cut to one row.
  const index_t side = largest(shape.d, [&](index_t x) {
    Blocks trial = *blocks;
    trial.a = trial.b = x;
    return footprint(variant, shape, trial) <= M;
  });
  blocks->b = whole_tiles(std::max<index_t>(side, 1), tile.cols);
  widen(variant, shape, M, shape.d, tile.rows, &Blocks::a, blocks);
}

// Words of memory that a pass over rows goes through for a block of keys: panels of S and of G or
// dO, padded to whole lanes, rows of U or O; keys, the copy of them that is multiplied, values.
index_t words_in_use(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                     const TileShape& tile) {
  const index_t lanes = ceil_div(blocks.r, blocks.rho) * round_up(blocks.rho, index_t(tile.cols));
  const index_t v = variant.form == Form::h ? shape.dv : shape.d;
  const index_t panels = variant.pass == Pass::backward ? shape.d + v : shape.d;
  const index_t rows = variant.pass == Pass::backward ? shape.d : v;
  return lanes * panels + blocks.r * rows + blocks.c * (2 * shape.d + v);
}

// Fewer rows than lanes hold more memory than is counted. Fewer keys at a time leave them room in
// the cache.
void make_room_for_padding(const Variant& variant, const LayerShape& shape, index_t M,
                           const TileShape& tile, Blocks* blocks) {
  if (variant.schedule != Schedule::row_stream || blocks->r >= tile.cols) return;
  Blocks trial = *blocks;
  const index_t cache = cache_words(M);
  constexpr index_t least_keys = 4;  // sums over fewer crawl
  while (trial.c > least_keys && words_in_use(variant, shape, trial, tile) > cache) trial.c /= 2;
  if (words_in_use(variant, shape, trial, tile) <= cache) blocks->c = trial.c;
}

// Without thin products that are phases of their own, which row_stream alone may do without.
index_t words_of_pass(const Variant& variant, const LayerShape& shape, const Blocks& blocks) {
  if (variant.schedule != Schedule::row_stream || variant.products == Products::fused) {
    return theory::io_cost(variant.pass, variant.schedule, shape, blocks).total().words();
  }
  return (variant.pass == Pass::forward ? theory::row_stream_forward_pass(shape, blocks)
                                        : theory::row_stream_backward_pass(shape, blocks))
      .words();
}

// Of sums over a block of keys. Forward, rows in an outer cache were measured to lose less by short
// blocks, and more rows then fit (MEASURED.md).
double efficiency_over_keys(Pass pass, index_t keys, const FastMemory& memory) {
  if (pass == Pass::backward || !memory.is_outer()) return efficiency(keys);
  return efficiency(keys, keys < 128 ? 10 : 6);
}

// What a word of the operand that a sub-block's sums are made of takes on its way from L2, in
// multiply-adds. AVX2, whose panels are one line wide, has half as many for each as others.
double price_of_sub_blocks(const TileShape& tile) { return tile.isa == Isa::avx2 ? 2 : 0; }

}  // namespace

// The products whose sums are as long as a block are U (or Z, O) over c keys and dX over rho rows;
// the others sum over d and, q, over columns of values. Columns of a tile beyond its queries are
// wasted lanes.
double row_pass_time(const Variant& variant, const LayerShape& shape, const Blocks& blocks,
                     const FastMemory& memory, const TileShape& tile) {
  const index_t words = words_of_pass(variant, shape, blocks);
  const double n = static_cast<double>(shape.n), m = static_cast<double>(shape.m);
  const double d = static_cast<double>(shape.d);
  const bool halved = variant.schedule == Schedule::half_dim;
  const index_t first_half = halved ? shape.d / 2 : 0;
  const double width = static_cast<double>(shape.d - first_half);
  const double values = static_cast<double>(variant.form == Form::h ? shape.dv : shape.d);
  const bool forward = variant.pass == Pass::forward;
  const bool makes_q = !forward && variant.schedule == Schedule::row_stream;
  const double scores = width + (makes_q ? values : 0), sums = forward ? values : width;
  const index_t used = std::min(blocks.rho, shape.n);
  const double dx = variant.products == Products::fused ? n * d * d / efficiency(used) : 0;
  return memory.price.per_word * static_cast<double>(words) +
         memory.price.per_inner_word * inner_words_of_rows(shape, variant, blocks, memory) +
         n * m *
             (sums / efficiency_over_keys(variant.pass, std::min(blocks.c, shape.m), memory) +
              sums * price_of_sub_blocks(tile) / static_cast<double>(used) +
              scores * wasted_lanes(used, tile)) +
         dx;
}

Blocks choose_row_blocks(const Variant& variant, const LayerShape& shape, const FastMemory& memory,
                         const TileShape& tile, RowNeeds needs) {
  const index_t M = memory.M;
  Blocks smallest = unit_blocks(variant);
  if (needs.products) choose_products(variant, shape, memory, tile, &smallest);
  Blocks blocks = search_rows(
      variant.pass, shape, memory, tile, smallest,
      [&](const Blocks& trial) {
        return needs.products ? footprint(variant, shape, trial)
                              : theory::row_pass_footprint(variant.pass, shape, trial);
      },
      [&](const Blocks& trial, const Price& price) {
        return row_pass_time(variant, shape, trial, {M, memory.inner_M, price}, tile);
      });
  if (needs.room && !memory.is_outer()) make_room_for_padding(variant, shape, M, tile, &blocks);
  widen_streams(variant, shape, M, tile, &blocks);
  return blocks;
}

}  // namespace ioattn::plan
