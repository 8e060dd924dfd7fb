// Tiles as the manual defines them, and products made of them: the bits of their sums, whatever
// surrounds their operands.

#include <gtest/gtest.h>
#include <cstring>

#include <algorithm>
#include <random>
#include <thread>

#include "kernels/generic/emulated_tiles.hpp"
#include "kernels/guarded_pages.hpp"
#include "kernels/pair_implementations.hpp"
#include "kernels/tile_oracle.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using kernels::bf16x2;
using kernels::EmulatedTiles;
using Pairs = kernels::Product<float, bf16x2>;

constexpr index_t side = EmulatedTiles::side;
using Tile = std::uint32_t[side][side];

class Random {
 public:
  index_t uniform(index_t low, index_t high) {
    return std::uniform_int_distribution<index_t>(low, high)(engine_);
  }
  // Any number of 16 bits if kind is 0, or of some magnitude.
  std::uint32_t term(index_t kind) {
    const auto bits = static_cast<std::uint32_t>(uniform(0, 0xffff));
    if (kind == 0) return bits;  // NaN and infinity too
    // 1: near 1, 2: products near the least normal number, 3: and beyond the largest number
    const index_t exponent = kind == 1             ? uniform(120, 134)
                             : kind == 3           ? uniform(180, 254)
                             : uniform(0, 15) == 0 ? 0
                                                   : uniform(44, 68);
    return (bits & 0x807f) | static_cast<std::uint32_t>(exponent) << 7;
  }
  std::uint32_t pair(index_t kind) { return term(kind) | term(kind) << 16; }

 private:
  std::mt19937 engine_{3};
};

bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
}

TEST(Tiles, MultiplyAsTheManualSays) {
  Random random;
  int special = 0, zeros = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Tile a, b, c;
    const index_t kind = trial % 4;
    for (index_t i = 0; i < side; ++i)
      for (index_t j = 0; j < side; ++j) {
        a[i][j] = random.pair(kind);
        b[i][j] = random.pair(kind == 3 ? random.uniform(1, 3) : kind);
        c[i][j] = kind == 2 ? static_cast<std::uint32_t>(random.uniform(0, 0x01ffffff))
                            : random.term(kind) << 16;
        // Most numbers of any bits would meet a NaN on the way.
        if (kind == 0 && random.uniform(0, 7) > 0) a[i][j] = random.pair(1);
        if (kind == 0 && random.uniform(0, 7) > 0) b[i][j] = random.pair(1);
      }
    float sums[side][side];
    EmulatedTiles::configure();
    EmulatedTiles::load<3>(c, side);
    EmulatedTiles::load<4>(a, side);
    EmulatedTiles::load<7>(b, side);
    EmulatedTiles::multiply_add<3, 4, 7>();
    EmulatedTiles::store<3>(sums[0], side);
    EmulatedTiles::release();
    for (index_t i = 0; i < side; ++i)
      for (index_t j = 0; j < side; ++j) {
        const float expected = oracle_sum(a[i], 1, &b[0][j], side, side, float_of(c[i][j]));
        ASSERT_TRUE(same(sums[i][j], expected)) << sums[i][j] << " " << expected << " " << kind;
        special += !std::isfinite(expected);
        zeros += expected == 0;
      }
  }
  EXPECT_GT(special, 1000);
  EXPECT_GT(zeros, 1000);
}

// The first element of A B.
float first_product(const Tile& a, const Tile& b) {
  float sums[side][side];
  EmulatedTiles::configure();
  EmulatedTiles::zero<0>();
  EmulatedTiles::load<1>(a, side);
  EmulatedTiles::load<2>(b, side);
  EmulatedTiles::multiply_add<0, 1, 2>();
  EmulatedTiles::store<0>(sums[0], side);
  EmulatedTiles::release();
  return sums[0][0];
}

// The two sums, of first and of second terms, meet at the end.
TEST(Tiles, AddFirstAndSecondTermsApart) {
  Tile a = {}, b = {};
  const std::uint32_t one = 0x3f80, large = 0x4c00;  // 2^25
  a[0][0] = one | large << 16;
  a[0][1] = one | (large | 0x8000) << 16;
  for (index_t q = 0; q < 2; ++q) b[q][0] = one | one << 16;
  EXPECT_EQ(first_product(a, b), 2.f);  // 0 if all were added one after the other
}

// What rounds to the least normal number is kept, what stays less is 0.
TEST(Tiles, RoundBeforeTheyFlush) {
  EXPECT_EQ(oracle_fma(0x1p-75f, -0x1p-76f, 0x1p-126f), 0x1p-126f);
  EXPECT_EQ(oracle_fma(0x1p-75f, -0x1.8p-76f, 0x1p-126f), 0.f);
  // 2^-126 + x y
  const auto made = [](std::uint32_t x, std::uint32_t y) {
    Tile a = {}, b = {};
    a[0][0] = 0x3f80;
    b[0][0] = 0x0080;
    a[0][1] = x;
    b[1][0] = y;
    return first_product(a, b);
  };
  const std::uint32_t x = 0x1a00;         // 2^-75
  EXPECT_EQ(made(x, 0x9980), 0x1p-126f);  // less 2^-151
  EXPECT_EQ(made(x, 0x99c0), 0.f);        // less 1.5 * 2^-151
}

TEST(Tiles, MoveTheirRowsAlone) {
  const FaultsAreTold told;
  for (const index_t stride : {side, side + 3, 5 * side})
    for (const Side at : sides) {
      const index_t count = span_of(side, side, stride);
      GuardedPages source(std::size_t(count) * 4), target(std::size_t(count) * 4);
      float* const from = source.place<float>(count, at);
      float* const to = target.place<float>(count, at);
      for (index_t i = 0; i < count; ++i) {
        from[i] = float(i);
        to[i] = -1;
      }
      EmulatedTiles::configure();
      EmulatedTiles::load<5>(from, stride);
      EmulatedTiles::store<5>(to, stride);
      EmulatedTiles::release();
      for (index_t i = 0; i < count; ++i)
        ASSERT_EQ(to[i], i % stride < side ? float(i) : -1.f) << i;
    }
}

TEST(TilesDeathTest, BelongToARegionOfOneThread) {
  EXPECT_DEATH(EmulatedTiles::zero<0>(), "");
  EXPECT_DEATH(EmulatedTiles::release(), "");
  EXPECT_DEATH(
      {
        EmulatedTiles::configure();
        EmulatedTiles::configure();
      },
      "");
  EXPECT_DEATH(
      {
        EmulatedTiles::configure();
        std::thread([] { EmulatedTiles::zero<0>(); }).join();
      },
      "");
}

class TileProductTest : public PairImplementationTest {
 protected:
  // 16 pairs after 16 pairs, from C where nothing else is to be done, else from 0.
  float expected(const Pairs& p, index_t i, index_t j, float old) const {
    const bool plain = p.epilogue == kernels::Epilogue::none && p.scale == 1;
    const auto* a = reinterpret_cast<const std::uint32_t*>(p.a.at(i, 0));
    const auto* b = reinterpret_cast<const std::uint32_t*>(p.b.row_of(j / nr(), 0)) + j % nr();
    if (p.row_scale != nullptr) old *= p.row_scale[i];
    float sum = plain && p.accumulate ? old : 0;
    for (index_t q = 0; q < p.depth; q += side)
      sum = oracle_sum(a + q * p.a.depth, p.a.depth, b + q * p.b.row, p.b.row,
                       std::min(side, p.depth - q), sum);
    if (plain) return sum;
    sum *= p.scale;
    if (p.epilogue != kernels::Epilogue::none) return old * (sum - p.row[i]);
    return p.accumulate ? old + sum : sum;
  }

  // Both layouts of A, in place and scaled, flush against pages that fault.
  void check(index_t rows, index_t cols, index_t depth, int form) {
    const bool by_rows = form % 2 == 0;
    const bool gradient = form / 2 % 3 == 2;
    const Side at = sides[form / 6 % 2];
    Pairs p;
    p.rows = rows;
    p.cols = cols;
    p.depth = depth;
    p.accumulate = form / 2 % 3 == 1;
    p.scale = form % 4 == 0 ? 0.3f : 1.f;
    const index_t a_row = by_rows ? depth + form % 5 : 1, c_row = cols + form % 2;
    const index_t a_depth = by_rows ? 1 : rows + form % 3, b_panel = depth * nr();
    const index_t a_count = by_rows ? span_of(rows, depth, a_row) : span_of(depth, rows, a_depth);
    const index_t b_count = ceil_div(cols, nr()) * b_panel;
    const index_t c_count = span_of(rows, cols, c_row);
    GuardedPages a(std::size_t(a_count) * 4), b(std::size_t(b_count) * 4),
        c(std::size_t(c_count) * 4), shifts(std::size_t(rows) * 4);
    const auto fill = [&](bf16x2* pairs, index_t count) {
      for (index_t i = 0; i < count; ++i) pairs[i] = {random_.pair(1)};
    };
    bf16x2* const a_data = a.place<bf16x2>(a_count, at);
    bf16x2* const b_data = b.place<bf16x2>(b_count, at);
    fill(a_data, a_count);
    fill(b_data, b_count);
    p.a = {a_data, a_row, a_depth};
    p.b = {b_data, b_panel, nr()};
    p.c = {c.place<float>(c_count, at), nr(), c_row};
    float* const row = shifts.place<float>(rows, at);
    for (index_t i = 0; i < rows; ++i) row[i] = float(i % 7);
    std::vector<float> before(static_cast<std::size_t>(c_count));
    for (float& x : before) x = float_of(random_.term(1) << 16);
    if (c_count > 0) std::memcpy(p.c.data, before.data(), before.size() * sizeof(float));
    if (gradient) {
      p.epilogue = kernels::Epilogue::gradient;
      p.row = row;
    }
    const std::vector<float> factors = {1, 0.5f, 1, 0, 2};
    std::vector<float> row_scale;
    for (index_t i = 0; i < rows; ++i) row_scale.push_back(factors[std::size_t(i % 5)]);
    if (p.accumulate && p.scale == 1 && form % 3 > 0) p.row_scale = row_scale.data();
    const std::vector<char> next(std::size_t(form % 7 * 200), 1);  // which changes no bit
    if (form % 3 > 0) p.ahead = {next.data(), form % 7, form * 13 % 200, 200};
    running = {"product", {rows, cols, depth, form}};
    pairs().product(p);
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < c_row && i * c_row + j < c_count; ++j) {
        const float old = before[std::size_t(i * c_row + j)], made = p.c.row_of(0, i)[j];
        const float wanted = j < cols ? expected(p, i, j, old) : old;
        ASSERT_TRUE(same(made, wanted))
            << rows << " x " << cols << " x " << depth << " form " << form << " at " << i << ", "
            << j << ": " << made << " for " << wanted;
      }
  }

  Random random_;
};
IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(TileProductTest, tile_implementations());

TEST_P(TileProductTest, SumsTheBitsOfItsTiles) {
  const FaultsAreTold told;
  int form = 0;
  const auto any = [&] { return random_.uniform(1, 40); };
  for (index_t size = 0; size <= 65 && !HasFailure(); ++size)
    for (int repeat = 0; repeat < 2; ++repeat) {
      check(size, any(), any(), form++);
      check(any(), size, any(), form++);
      check(any(), any(), size, form++);
    }
  for (const index_t depth : {255, 256, 257, 513})
    for (int repeat = 0; repeat < 6 && !HasFailure(); ++repeat)
      check(any(), random_.uniform(30, 70), depth, form++);
}

// B as rows of terms, C as rows of columns of B: up to whole tiles of these there may be garbage.
TEST_P(TileProductTest, MakesTheSameBitsTransposed) {
  const FaultsAreTold told;
  ASSERT_NE(pairs().transpose, nullptr);
  const auto any = [&](index_t most) { return random_.uniform(0, most); };
  for (int trial = 0; trial < 250 && !HasFailure(); ++trial) {
    const index_t rows = any(70), cols = any(70);
    const index_t depth = trial % 10 == 0 ? random_.uniform(250, 530) : any(40);
    const Side at = sides[trial % 2];
    const index_t a_depth = rows + any(3), b_row = depth + any(3), c_row = rows + any(3);
    const index_t whole = round_up(cols, side), panels = ceil_div(cols, nr());
    const index_t a_count = span_of(depth, rows, a_depth), b_count = span_of(cols, depth, b_row),
                  c_count = span_of(whole, rows, c_row);
    GuardedPages a(std::size_t(a_count) * 4), b(std::size_t(b_count) * 4),
        c(std::size_t(c_count) * 4);
    bf16x2* const a_data = a.place<bf16x2>(a_count, at);
    bf16x2* const b_data = b.place<bf16x2>(b_count, at);
    float* const c_data = c.place<float>(c_count, at);
    for (index_t i = 0; i < a_count; ++i) a_data[i] = {random_.pair(1)};
    for (index_t i = 0; i < b_count; ++i) b_data[i] = {random_.pair(1)};
    std::vector<bf16x2> packed(std::size_t(panels * depth * nr()));
    for (index_t j = 0; j < cols; ++j)
      for (index_t q = 0; q < depth; ++q)
        packed[std::size_t((j / nr() * depth + q) * nr() + j % nr())] = b_data[j * b_row + q];
    std::vector<float> wanted(std::size_t(rows * panels * nr())), before;
    for (float& x : wanted) x = float_of(random_.term(1) << 16);
    for (index_t i = 0; i < c_count; ++i) c_data[i] = -7;
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j)
        c_data[j * c_row + i] = wanted[std::size_t(i * panels * nr() + j)];
    Pairs p = dense_product(rows, cols, depth, a_data, packed.data(), wanted.data(), nr());
    p.a = {a_data, 1, a_depth};
    p.accumulate = trial % 3 > 0;
    pairs().product(p);
    p.b = {b_data, 0, b_row};
    p.c = {c_data, 0, c_row};
    p.transposed = true;
    running = {"transposed product", {rows, cols, depth, trial}};
    pairs().product(p);
    for (index_t j = 0; j < cols; ++j)
      for (index_t i = 0; i < c_row && j * c_row + i < c_count; ++i) {
        const float expected = i < rows ? wanted[std::size_t(i * panels * nr() + j)] : -7;
        ASSERT_TRUE(same(c_data[j * c_row + i], expected))
            << rows << " x " << cols << " x " << depth << " at " << i << ", " << j;
      }
  }
}

TEST_P(TileProductTest, TransposesPairsOfRows) {
  const FaultsAreTold told;
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    const index_t rows = random_.uniform(1, 70), cols = random_.uniform(1, 70);
    const index_t stride = cols + random_.uniform(0, 3), each = ceil_div(rows, index_t(2));
    const index_t used = span_of(rows, cols, stride), made = span_of(cols, each, each + 1);
    const Side at = sides[trial % 2];
    GuardedPages source(std::size_t(used) * 2), transposed(std::size_t(made) * 4);
    bf16* const src = source.place<bf16>(used, at);
    bf16x2* const dst = transposed.place<bf16x2>(made, at);
    for (index_t i = 0; i < used; ++i) src[i] = {std::uint16_t(random_.uniform(0, 0xffff))};
    for (index_t i = 0; i < made; ++i) dst[i] = {7};
    running = {"transpose", {rows, cols, stride, trial}};
    pairs().transpose(src, stride, rows, cols, dst, each + 1);
    const auto bits = [&](index_t i, index_t k) {
      return i < rows ? std::uint32_t(src[i * stride + k].bits) : 0;
    };
    for (index_t k = 0; k < cols; ++k)
      for (index_t r = 0; r <= each && k * (each + 1) + r < made; ++r)
        ASSERT_EQ(dst[k * (each + 1) + r].bits,
                  r < each ? bits(2 * r, k) | bits(2 * r + 1, k) << 16 : 7)
            << rows << " x " << cols << " at " << r << ", " << k;
  }
}

}  // namespace
}  // namespace ioattn_test
