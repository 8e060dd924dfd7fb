// Score tiles that a mask cuts: what is seen has the bits of the whole product, most of what is
// hidden is not made.

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/range.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using schedules::Range;

constexpr float untouched = 12345;

// Two products with all rows and lanes of a tile, of numbers or of pairs of terms.
template <class T, class W>
class ScoreTiles {
 public:
  ScoreTiles(const kernels::KernelTable<T>& table, const Range& rows, const Range& lanes,
             RandomProblem* random)
      : table_(table), rows_(rows), lanes_(lanes) {
    const index_t nr = table.tile.cols, panels = ceil_div(lanes.size(), nr);
    stride_ = (panels + 1) * nr;
    a_.resize(std::size_t(rows.size() * depth));
    b_.resize(std::size_t(panels * nr * depth));
    for (std::vector<W>* words : {&a_, &b_})
      for (W& word : *words) word = any_word(random);
    for (std::vector<T>* shifts : {&row_, &lane_})
      for (index_t i = 0; i < std::max(rows.size(), panels * nr); ++i)
        shifts->push_back(T(random->uniform(0, 100)) / 100);
  }

  kernels::Product<T, W> product(bool shifts_lanes, std::vector<T>* tile) const {
    tile->assign(std::size_t(rows_.size() * stride_), T(untouched));
    kernels::Product<T, W> p;
    p.rows = rows_.size();
    p.cols = lanes_.size();
    p.depth = depth;
    p.a = {a_.data(), depth, 1};
    p.b = {b_.data(), depth * table_.tile.cols, table_.tile.cols};
    p.c = {tile->data(), table_.tile.cols, stride_};
    p.epilogue = kernels::Epilogue::exp;
    (shifts_lanes ? p.lane : p.row) = (shifts_lanes ? lane_ : row_).data();
    return p;
  }
  index_t stride() const { return stride_; }

 private:
  static constexpr index_t depth = 7;

  static W any_word(RandomProblem* random) {
    const auto small = [&] { return static_cast<float>(random->uniform(-8, 8)) / 8; };
    if constexpr (std::is_same_v<W, kernels::bf16x2>) {
      const auto bits = [&] { return std::bit_cast<std::uint32_t>(small()); };
      return {bits() >> 16 | (bits() & 0xffff0000)};
    } else {
      return static_cast<W>(small());
    }
  }

  const kernels::KernelTable<T>& table_;
  const Range &rows_, &lanes_;
  index_t stride_;
  std::vector<W> a_, b_;
  std::vector<T> row_, lane_;
};

// Returns how many entries were made.
template <class T, class W>
index_t expect_the_whole(const kernels::KernelTable<T>& table, const Mask& mask, const Range& rows,
                         const Range& lanes, bool shifts_lanes, RandomProblem* random) {
  const ScoreTiles<T, W> tiles(table, rows, lanes, random);
  std::vector<T> whole, part;
  schedules::multiply(table, tiles.product(shifts_lanes, &whole));
  schedules::masked_scores(table, tiles.product(shifts_lanes, &part), mask, rows, lanes);
  index_t made = 0;
  for (index_t i = 0; i < rows.size(); ++i) {
    const Interval seen = mask.of_row(rows.begin + i, lanes.end);
    for (index_t j = 0; j < tiles.stride(); ++j) {
      const std::size_t at = std::size_t(i * tiles.stride() + j);
      const index_t lane = lanes.begin + j;
      if (lane >= seen.begin && lane < seen.end) {
        EXPECT_EQ(part[at], whole[at]) << i << " " << j;
      } else {
        EXPECT_TRUE(part[at] == whole[at] || part[at] == T(untouched)) << i << " " << j;
      }
      made += part[at] != T(untouched);
    }
  }
  return made;
}

template <class T, class W>
void expect_for_any(const kernels::KernelTable<T>& table) {
  SCOPED_TRACE(name_of(table.tile.isa));
  RandomProblem random(7);
  for (int number = 0; number < 60 && !testing::Test::HasFailure(); ++number) {
    const index_t first = random.uniform(0, 200), lane = random.uniform(0, 200);
    const Range rows(first, first + random.logarithmic(1, 300), 300);
    const Range lanes(lane, lane + random.logarithmic(1, 300), 300);
    const Mask mask = random.mask(rows.end, lanes.end);
    expect_the_whole<T, W>(table, mask, rows, lanes, number % 2 == 0, &random);
  }
  // A little more than a triangle.
  const Range all(512, 512);
  const index_t made = expect_the_whole<T, W>(table, causal_top_left(), all, all, false, &random);
  const index_t beside = 32 + table.tile.cols;
  EXPECT_LE(made, 512 * (512 + beside) / 2);
  EXPECT_EQ((expect_the_whole<T, W>(table, Mask{}, all, all, false, &random)), 512 * 512);
}

template <class T>
void expect_for_all_tables() {
  expect_for_any<T, T>(odd_tile<T>());
  for (const kernels::Kernels* kernels : kernels::all_kernels())
    if (machine::this_machine().isa.has(kernels->isa)) expect_for_any<T, T>(kernels->table<T>());
}

TEST(MaskedScores, OfF32) { expect_for_all_tables<float>(); }
TEST(MaskedScores, OfF64) { expect_for_all_tables<double>(); }
TEST(MaskedScores, OfPairs) {
  expect_for_any<float, kernels::bf16x2>(odd_tile_of_pairs());
  for (const kernels::Kernels* kernels : kernels::all_kernels()) {
    const kernels::KernelTable<float>& table = kernels->table<float>();
    if (table.pairs_of_bf16 == nullptr || !machine::this_machine().isa.has(kernels->isa)) continue;
    const kernels::PairRegion region(table.pairs_of_bf16);
    expect_for_any<float, kernels::bf16x2>(table);
  }
}

}  // namespace
}  // namespace ioattn_test
