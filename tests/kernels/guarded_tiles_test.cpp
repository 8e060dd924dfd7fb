// Kernels on score tiles and dot products of rows with every operand flush against pages that
// fault, for every tail of keys, queries and columns; the place of the operands changes no bit.

#include <cstring>
#include <random>

#include "kernels/guarded_pages.hpp"
#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;
using ioattn::kernels::ScoreTile;

class GuardedTiles : public KernelTest {};

constexpr std::size_t bytes = std::size_t(1) << 17;
constexpr std::size_t most_operands = 4;

template <class T>
class TileSweep {
 public:
  TileSweep() : values_(bytes / sizeof(T)) {
    std::mt19937 engine(9);
    std::uniform_real_distribution<T> uniform(-1, 1);
    for (T& value : values_) value = uniform(engine);
  }

  // Calls run(operands, side) with operands of these sizes on both sides, and compares all of what
  // it leaves there.
  template <class Run>
  void both_sides(std::initializer_list<index_t> counts, const Run& run) {
    T* at[most_operands] = {};
    std::vector<T> first[most_operands];
    for (const Side side : sides) {
      running.numbers[7] = int(side);
      std::size_t i = 0;
      for (const index_t count : counts) {
        at[i] = pages_[i].place(values_.data() + i, count, side);
        ++i;
      }
      run(at);
      i = 0;
      for (const index_t count : counts) {
        if (side == sides[0]) first[i].assign(at[i], at[i] + count);
        ASSERT_TRUE(count == 0 ||
                    std::memcmp(at[i], first[i].data(), first[i].size() * sizeof(T)) == 0)
            << "operand " << i << " differs with its place";
        ++i;
      }
    }
  }

 private:
  std::vector<T> values_;
  GuardedPages pages_[most_operands] = {GuardedPages(bytes), GuardedPages(bytes),
                                        GuardedPages(bytes), GuardedPages(bytes)};
};

// Sizes of tiles: every tail of either.
template <class T, class Act>
void for_each_tile(const KernelTable<T>& table, const Act& act) {
  // Four vectors of queries at a time, then one, then single ones: nr is at least one vector.
  const index_t most_queries = 5 * table.tile.cols + 1, most_keys = 2 * table.tile.cols + 1;
  index_t calls = 0;
  for (index_t queries = 0; queries <= most_queries; ++queries)
    for (index_t keys = 0; keys <= most_keys; ++keys) {
      if (calls++ % test_every() == 0) act(keys, queries, queries + (keys + queries) % 2 * 3);
      if (testing::Test::HasFailure()) return;
    }
  for (const index_t keys : {255, 256, 257}) act(keys, table.tile.cols + 1, table.tile.cols + 1);
}

template <class T>
void check_tiles(const KernelTable<T>& table) {
  TileSweep<T> sweep;
  for_each_tile(table, [&](index_t keys, index_t queries, index_t stride) {
    const index_t size = span_of(keys, queries, stride);
    const auto tile = [&](T* data) { return ScoreTile<T>{data, stride, keys, queries}; };
    const auto start = [&](const char* what) { running = {what, {keys, queries, stride}}; };
    start("exp_tile");
    sweep.both_sides({size, queries}, [&](T* const* x) { table.exp_tile(tile(x[0]), x[1]); });
    start("gradient_tile");
    sweep.both_sides({size, size, queries, size}, [&](T* const* x) {
      table.gradient_tile(tile(x[0]), tile(x[1]), x[2], tile(x[3]));
    });
    for (const int p : {0, 1})
      sweep.both_sides({size, size, queries}, [&](T* const* x) {
        table.gradient_tile(tile(x[0]), tile(x[1]), x[2], tile(x[p]));
      });
    start("dot_tile");
    sweep.both_sides({size, size, queries},
                     [&](T* const* x) { table.dot_tile(tile(x[0]), tile(x[1]), x[2]); });
    start("transpose");
    for (const bool add : {false, true})
      sweep.both_sides({size, span_of(queries, keys, keys + 2)}, [&](T* const* x) {
        table.transpose(x[0], stride, keys, queries, add, x[1], keys + 2);
      });
    start("softmax_update");
    for (const bool store : {false, true})
      for (const bool rescale : {false, true})
        sweep.both_sides({size, queries, queries, queries}, [&](T* const* x) {
          table.softmax_update(tile(x[0]), store, x[1], x[2], rescale ? x[3] : nullptr);
        });
  });
}

TEST_P(GuardedTiles, StayInTheirOperands) {
  const FaultsAreTold told;
  check_tiles(table<float>());
  check_tiles(table<double>());
}

template <class T>
void check_rows(const KernelTable<T>& table) {
  TileSweep<T> sweep;
  const index_t most = 5 * table.tile.cols + 1;  // four vectors of columns at a time
  const auto check = [&](index_t rows, index_t cols) {
    for (const index_t gap : {0, 3}) {
      running = {"row_dot, are_finite, scale_rows", {rows, cols, gap}};
      const index_t x_stride = cols + gap, y_stride = cols + 3 - gap;
      sweep.both_sides({span_of(rows, cols, x_stride), span_of(rows, cols, y_stride), rows},
                       [&](T* const* x) {
                         table.row_dot(rows, cols, x[0], x_stride, x[1], y_stride, x[2]);
                         table.are_finite(rows, cols, x[0], x_stride);
                         table.scale_rows(rows, cols, x[2], 1, x[0], x_stride, x[1], y_stride);
                       });
    }
  };
  for (index_t cols = 0; cols <= most; ++cols)
    for (index_t rows = 0; rows <= 5; ++rows) check(rows, cols);
  for (index_t rows = 0; rows <= most; ++rows) check(rows, table.tile.cols + 1);
  for (const index_t cols : {255, 256, 257, 300, 513}) check(3, cols);
}

TEST_P(GuardedTiles, OfRowsStayInTheirOperands) {
  const FaultsAreTold told;
  check_rows(table<float>());
  check_rows(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(GuardedTiles);

}  // namespace
}  // namespace ioattn_test
