#include "theory/word_level.hpp"
#include "data_path.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::theory::word_level {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  if (!line.empty() && line.back() == ',') cells.emplace_back();
  return cells;
}

// Made by an independent program that moved every word of every schedule through a cache of M
// words. Its resident schedule reads A3 also where it is tied to A2.
std::vector<Row> read_table(const std::string& name) {
  std::ifstream file(ioattn_test::data_path(name));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    EXPECT_EQ(cells.size(), names.size());
    Row row;
    for (std::size_t i = 0; i < cells.size() && i < names.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

std::string text(const Cost& cost) { return cost ? std::to_string(cost->total()) : ""; }

Cost least(const std::vector<Cost>& costs) {
  Cost best;
  for (const Cost& cost : costs) {
    if (cost && (!best || cost->total() < best->total())) best = cost;
  }
  return best;
}

TEST(WordLevel, ReproducesEveryColumnOfTheTable) {
  const std::vector<Row> rows = read_table("io_table.csv");
  ASSERT_EQ(rows.size(), 189u);
  for (const Row& row : rows) {
    const index_t n = std::stoll(row.at("n")), d = std::stoll(row.at("d"));
    const index_t M = std::stoll(row.at("M"));
    SCOPED_TRACE("n=" + row.at("n") + " d=" + row.at("d") + " M=" + row.at("M"));
    const LayerShape shape = {n, n, d, d, Tie::none}, tied = {n, n, d, d, Tie::kv};
    const auto expect = [&row](const char* column, const Cost& cost) {
      EXPECT_EQ(text(cost), row.at(column)) << column;
    };
    expect("paper_small", paper_small_backward(shape, M));
    expect("paper_large_nominal", paper_large_backward_nominal(shape, M));
    expect("paper_large_fitted", paper_large_backward(shape, M));
    expect("paper_large_fitted_swapped", paper_large_backward(shape, M, Caps::swapped));

    const Cost uc = stationary_backward(shape, M);
    const Cost ft_dual = tile_fused_backward(shape, M, ScoreTile::resident);
    const Cost ft_spill = tile_fused_backward(shape, M, ScoreTile::parked);
    const Cost rs = least({row_stream_backward(shape, M), resident_backward(shape, M)});
    expect("UC", uc);
    expect("FT_dual", ft_dual);
    expect("FT_spill", ft_spill);
    expect("RS", rs);
    expect("best_io", least({uc, ft_dual, ft_spill, rs}));

    const Cost uc_tied = stationary_backward(tied, M);
    const Cost rs_tied = least({row_stream_backward(tied, M), resident_backward(shape, M)});
    expect("UC_tied", uc_tied);
    expect("RS_tied", rs_tied);
    expect("best_tied_io", least({uc, uc_tied, ft_dual, ft_spill, rs_tied}));
    const std::string& winner = row.at("best_tied");
    ASSERT_TRUE(winner == "UCt" || winner == "RSt") << winner;
    expect("best_tied_io", winner == "UCt" ? uc_tied : rs_tied);

    expect("fwd_small_paper", paper_small_forward(shape, M));
    expect("fwd_UC", stationary_forward(shape, M));
    expect("fwd_RS", row_stream_forward(shape, M));
  }
}

// Walked word by word by an independent Python program for all n up to 20, where its formulas were
// equal to its counts; those formulas gave the larger sizes.
TEST(WordLevel, ReproducesTheRowPassesWithStoredScores) {
  const std::vector<Row> rows = read_table("row_pass_words.csv");
  ASSERT_EQ(rows.size(), 220u);
  int existing = 0;
  for (const Row& row : rows) {
    const index_t n = std::stoll(row.at("n")), m = std::stoll(row.at("m"));
    const index_t d = std::stoll(row.at("d")), M = std::stoll(row.at("M"));
    SCOPED_TRACE("n=" + row.at("n") + " m=" + row.at("m") + " d=" + row.at("d") +
                 " M=" + row.at("M"));
    const auto expect = [&](const std::string& schedule, const Cost& cost) {
      const std::string& reads = row.at(schedule + "_reads");
      ASSERT_EQ(cost.has_value(), !reads.empty()) << schedule;
      if (!cost) return;
      ++existing;
      EXPECT_EQ(cost->reads, std::stoll(reads)) << schedule;
      EXPECT_EQ(cost->writes, std::stoll(row.at(schedule + "_writes"))) << schedule;
    };
    expect("q_stored", q_stored_backward({n, m, d, d, Tie::none}, M));
    expect("half_dim", half_dim_backward({n, m, d, d, Tie::none}, M));
  }
  EXPECT_GT(existing, 250);
}

// n != m, small M and ragged tiles, from the same program; -1: M is too small. Columns:
// paper_small, paper_large fitted and swapped, stationary, tied, tile_fused with two tiles, with
// one parked, row_stream or resident, tied; forward: paper_small, stationary, row_stream, tied.
struct Case {
  index_t n, m, d, M;
  index_t words[13];
};
constexpr Case rectangular[] = {
    {1, 1, 1, 5, {25, -1, -1, 24, -1, -1, 22, -1, -1, 13, 14, -1, -1}},
    {7, 3, 2, 12, {575, -1, -1, 353, 305, 329, 371, -1, 213, 310, 226, 175, 133}},
    {3, 11, 5, 24, {1776, -1, -1, 621, 580, 729, 615, -1, 423, 940, 352, 513, 348}},
    {40, 9, 6, 64, {8856, -1, -1, 5730, 5166, 5736, 5496, 5236, 4156, 4510, 3356, 2320, 2284}},
    {300,
     2000,
     48,
     1000,
     {19201920, -1, -1, 7787268, 6587268, 9529668, 8080068, 9855468, 5055468, 9691116, 4631064,
      5927340, 3449772}},
    {2000,
     300,
     48,
     1000,
     {18457920, -1, -1, 9036720, 7894320, 10750320, 9204720, 11303120, 6493520, 9784016, 5403616,
      6875600, 4432784}},
    {9000,
     20000,
     12,
     9,
     {14594700144, -1, -1, 6663807144, 6303807144, 10803591144, 9723735144, -1, -1, 8828817000,
      4934502000, -1, -1}},
    {20000,
     7000,
     17,
     30,
     {8480752789, -1, -1, 3586410289, 3306410289, 5482730289, 4453730289, -1, -1, 4978851500,
      2490990000, -1, -1}},
    {5,
     40000,
     130,
     700,
     {238642400, -1, -1, 16842015, 11702215, 17340715, 16973715, 52063705, 26063705, 123826055,
      11028810, 31302705, 15702705}},
    {40000,
     6,
     90,
     20000,
     {29511480, 33132280, 33132280, 43769880, 43287180, 42742920, 43203480, 7225380, 7225380,
      24020680, 25234760, 13581760, 13450540}},
    {1500,
     1200,
     700,
     60000,
     {116250000, -1, -1, 61904500, 57884500, 74204500, 62684500, 117041500, 71681500, 70491500,
      38493000, 97861500, 67621500}},
    {800,
     900,
     64,
     200000,
     {8860160, 2039584, 674080, 3848288, 2408288, 1473888, 2568288, 229888, 229888, 2463264,
      1980992, 226592, 168992}},
    {63,
     17,
     9,
     41,
     {35703, -1, -1, 23211, 21987, 28917, 24255, 29385, 19746, 19809, 14904, 30681, 21042}},
    {4000,
     3000,
     3,
     14,
     {324210009, -1, -1, 114150021, 96150021, 156120021, 126120021, -1, -1, 156163000, 72092012,
      72100000, 36100000}},
    {4, 1, 3, 10, {243, -1, -1, 235, 221, 237, 227, -1, -1, 173, 140, 124, -1}},
    {1000, 700, 3, 4, {18950409, -1, -1, 14063009, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
    {50, 2, 4, 23, {3196, -1, -1, 3446, 3222, 3190, 3294, 3482, 3082, 2190, 2156, 1650, 2450}},
};

TEST(WordLevel, ReproducesRectangularCases) {
  for (const Case& expected : rectangular) {
    const auto& [n, m, d, M, words] = expected;
    SCOPED_TRACE(testing::Message() << "n=" << n << " m=" << m << " d=" << d << " M=" << M);
    const LayerShape shape = {n, m, d, d, Tie::none}, tied = {n, m, d, d, Tie::kv};
    const Cost costs[] = {paper_small_backward(shape, M),
                          paper_large_backward(shape, M),
                          paper_large_backward(shape, M, Caps::swapped),
                          stationary_backward(shape, M),
                          stationary_backward(tied, M),
                          tile_fused_backward(shape, M, ScoreTile::resident),
                          tile_fused_backward(shape, M, ScoreTile::parked),
                          least({row_stream_backward(shape, M), resident_backward(shape, M)}),
                          least({row_stream_backward(tied, M), resident_backward(shape, M)}),
                          paper_small_forward(shape, M),
                          stationary_forward(shape, M),
                          row_stream_forward(shape, M),
                          row_stream_forward(tied, M)};
    for (std::size_t i = 0; i < std::size(costs); ++i) {
      EXPECT_EQ(costs[i] ? costs[i]->total() : -1, words[i]) << "column " << i;
    }
  }
}

// With one tile per product every operand of a product is read once: widths and nothing else.
TEST(WordLevel, WidthsWhereDvDiffers) {
  const index_t n = 11, m = 7, d = 5, e = 3, M = 1 << 20;
  const auto product = [](index_t n1, index_t k, index_t n2) { return k * (n1 + n2); };
  const LayerShape shape = {n, m, d, e, Tie::none};
  const index_t delta = 2 * n * e, rows = 2 * n, s = product(n, d, d), dx = product(d, n, d);
  const index_t g = product(n, e, d), h = product(m, d, e), u = product(n, m, d);
  const index_t f = product(n, d, m);
  EXPECT_EQ(stationary_backward(shape, M),
            (Words{delta + rows + s + g + f + product(n, d, m) + n * m + u + dx,
                   n + 3 * n * d + 2 * n * m + d * d}));
  EXPECT_EQ(stationary_backward(shape, M, Form::h),
            (Words{delta + rows + s + h + f + product(n, e, m) + n * m + u + dx,
                   n + 2 * n * d + m * e + 2 * n * m + d * d}));
  EXPECT_EQ(
      stationary_backward({n, m, d, e, Tie::kv}, M),
      (Words{delta + rows + s + g + d * (2 * n + m) + u + dx, n + 3 * n * d + n * m + d * d}));
  EXPECT_EQ(tile_fused_backward(shape, M, ScoreTile::resident),
            (Words{delta + rows + s + g + 2 * f + m * d + dx, n + 3 * n * d + d * d}));
  EXPECT_EQ(stationary_forward(shape, M), (Words{s + f + product(n, m, d) + product(n, d, e) + n,
                                                 2 * n * d + n * e + n * m + n}));
  EXPECT_EQ(stationary_forward(shape, M, Form::h),
            (Words{s + h + f + product(n, m, e) + n, n * d + m * e + n * e + n * m + n}));
}

// Rows of S, dO, G and delta decide where dv is large; products of their own pay where d is.
TEST(WordLevel, RowStreamBackwardWhereDvDiffers) {
  const index_t n = 30, m = 30, d = 4, e = 11, M = n * (2 * d + e + 1) + 1;
  const LayerShape wide = {n, m, d, e, Tie::none};
  const Words one_pass = {2 * n * d + 2 * n * e + n + 2 * m * d + d * d + d * e, d * d};
  EXPECT_EQ(row_stream_backward(wide, M), one_pass);
  EXPECT_GT(row_stream_backward(wide, M - 1)->total(), one_pass.total());

  const LayerShape deep = {8, 5, 20, 7, Tie::none};  // at M = 430: two passes of at most six rows
  const index_t products = 20 * (8 + 20) + 7 * (8 + 20) + 8 * (20 + 20);  // S, G, dX
  const index_t stream = 2 * 8 * 20 + 2 * 8 * 7 + 8 + 2 * (2 * 5 * 20);
  EXPECT_EQ(row_stream_backward(deep, 430), (Words{products + stream, 3 * 8 * 20 + 20 * 20}));
}

TEST(WordLevel, SelfAttentionSharesKeysAndValues) {
  const LayerShape tied = {50, 50, 8, 5, Tie::kv}, self = {50, 50, 8, 5, Tie::all};
  for (const index_t M : {60, 200, 900}) {
    EXPECT_EQ(row_stream_backward(self, M), row_stream_backward(tied, M));
    EXPECT_EQ(row_stream_forward(self, M), row_stream_forward(tied, M));
    EXPECT_EQ(stationary_backward(self, M), stationary_backward(tied, M));
  }
}

const LayerShape shapes[] = {{5, 7, 3, 3, Tie::none},   {5, 7, 3, 3, Tie::kv},
                             {40, 9, 6, 2, Tie::none},  {9, 40, 6, 2, Tie::kv},
                             {30, 30, 4, 11, Tie::all}, {1, 1, 1, 1, Tie::none}};

TEST(WordLevel, SchedulesThatHoldEverythingMoveEveryWordOnce) {
  for (LayerShape shape : shapes) {
    shape.tie = Tie::none;
    const double all = compulsory_bound(Pass::backward, shape);
    EXPECT_EQ(double(naive_backward(shape, 1 << 20)->total()), all);
    EXPECT_EQ(double(resident_backward(shape, 1 << 20)->total()), all);
    // The forward pass also writes LSE.
    EXPECT_EQ(double(row_stream_forward(shape, 1 << 20)->total()),
              compulsory_bound(Pass::forward, shape) + double(shape.n));
  }
}

TEST(WordLevel, RowStreamIsTheBlockScheduleOfAsManyPasses) {
  for (const LayerShape& shape : shapes) {
    const auto [n, m, d, e, tie, mask] = shape;
    SCOPED_TRACE(testing::Message() << n << " " << m << " " << d << " " << e);
    Blocks blocks;
    blocks.c = blocks.rho = blocks.w = blocks.o = blocks.a = blocks.b = 1;
    for (index_t rows = 1; rows <= n; ++rows) {
      blocks.r = rows;
      // Just enough for `rows` rows in both phases of the forward pass.
      const index_t stream = rows * (2 * d + 3) + (tie == Tie::none ? 1 : d);
      const index_t M = std::max(stream, rows * (d + e + 2) + 1);
      const index_t least = std::max((2 * d + 3) + (tie == Tie::none ? 1 : d), d + e + 3);
      const IoCost cost = io_cost(Pass::forward, Schedule::row_stream, shape, blocks).total();
      ASSERT_TRUE(row_stream_forward(shape, M));
      EXPECT_EQ(row_stream_forward(shape, M)->reads, cost.reads);
      EXPECT_EQ(row_stream_forward(shape, M)->writes, cost.writes);
      EXPECT_FALSE(row_stream_forward(shape, least - 1));

      // Backward, the products may be cheaper on their own, never dearer.
      const index_t words = std::max(rows * (3 * d + 4) + d + 1, rows * (2 * d + e + 1) + 1);
      const Cost backward = row_stream_backward(shape, words);
      ASSERT_TRUE(backward);
      EXPECT_LE(backward->total(),
                io_cost(Pass::backward, Schedule::row_stream, shape, blocks).total().words());
    }
    // Everything in one pass: nothing is cheaper than the stream.
    blocks.r = n;
    EXPECT_EQ(row_stream_backward(shape, 1 << 20)->total(),
              io_cost(Pass::backward, Schedule::row_stream, shape, blocks).total().words());
  }
}

// The no-reuse form of naive takes a word of a result at a time, whatever the length of its reads:
// the paper's blocks with B = 1, and B x B blocks are B x B whatever the length of theirs.
TEST(WordLevel, NaiveWithoutReuseIsThePapersWithSingleWords) {
  const LayerShape cases[] = {{7, 5, 3, 3, Tie::none},
                              {12, 20, 9, 4, Tie::none},
                              {1, 1, 1, 1, Tie::none},
                              {30, 8, 2, 11, Tie::none}};
  for (const LayerShape& shape : cases) {
    for (const index_t depth : {1, 4, 50}) {
      Blocks blocks;
      blocks.r = 1;
      blocks.c = depth;
      EXPECT_EQ(io_cost(Pass::backward, Schedule::naive, shape, blocks).total().words(),
                paper_small_backward(shape, 5)->total());
      blocks.r = 3;
      EXPECT_EQ(io_cost(Pass::backward, Schedule::paper_small, shape, blocks).total().words(),
                paper_small_backward(shape, index_t(4) * 3 * 3)->total());
    }
  }
}

TEST(WordLevel, SaysWhenMIsTooSmall) {
  const LayerShape shape = {20, 20, 6, 6, Tie::none}, tied = {20, 20, 6, 6, Tie::kv};
  EXPECT_TRUE(paper_small_backward(shape, 4));
  EXPECT_FALSE(paper_small_backward(shape, 3));
  EXPECT_TRUE(paper_small_forward(shape, 5));
  EXPECT_FALSE(paper_small_forward(shape, 4));
  EXPECT_TRUE(paper_large_backward(shape, 36 + 5 * 6 + 3));  // d^2 + 5d + 3
  EXPECT_FALSE(paper_large_backward(shape, 36 + 5 * 6 + 2));
  EXPECT_TRUE(row_stream_backward(shape, 4 * 6 + 5));
  EXPECT_FALSE(row_stream_backward(shape, 4 * 6 + 4));
  EXPECT_TRUE(row_stream_backward(tied, 4 * 6 + 4));
  EXPECT_FALSE(row_stream_backward(tied, 4 * 6 + 3));
  EXPECT_TRUE(q_stored_backward(shape, 3 * 6 + 4));
  EXPECT_FALSE(q_stored_backward(shape, 3 * 6 + 3));
  EXPECT_TRUE(half_dim_backward(shape, 3 * 3 + 4));
  EXPECT_FALSE(half_dim_backward(shape, 3 * 3 + 3));
  EXPECT_FALSE(half_dim_backward({20, 20, 1, 1, Tie::none}, 1000));
  EXPECT_TRUE(stationary_backward(shape, 4));
  EXPECT_FALSE(stationary_backward(shape, 3));
  EXPECT_TRUE(stationary_forward(shape, 5));
  EXPECT_FALSE(stationary_forward(shape, 4));
  EXPECT_TRUE(score_stored_forward(shape, 2 * 6 + 2));
  EXPECT_FALSE(score_stored_forward(shape, 2 * 6 + 1));
  EXPECT_TRUE(tile_fused_backward(shape, 6, ScoreTile::resident));
  EXPECT_FALSE(tile_fused_backward(shape, 5, ScoreTile::resident));
  EXPECT_TRUE(tile_fused_backward(shape, 5, ScoreTile::parked));
  EXPECT_FALSE(tile_fused_backward(shape, 4, ScoreTile::parked));
  const index_t resident = 2 * 20 * 6 + 2 * 36 + 2 * 6 + 2 * 20;
  EXPECT_TRUE(resident_backward(shape, resident));
  EXPECT_FALSE(resident_backward(shape, resident - 1));
  const index_t naive = 2 * 20 * 6 + 3 * 20 * 20 + 20;  // A1, A2, f, q, p, delta
  EXPECT_TRUE(naive_backward(shape, naive));
  EXPECT_FALSE(naive_backward(shape, naive - 1));
}

// All tiles that fit, by an independent Python program whose formula equals its walk; n, m, d, M.
TEST(WordLevel, ForwardTiles) {
  const auto words = [](index_t n, index_t m, index_t d, index_t M) {
    const Cost cost = tile_fused_forward({n, m, d, d, Tie::none}, M);
    return cost ? cost->total() : -1;
  };
  EXPECT_EQ(words(1, 1, 1, 5), -1);
  EXPECT_EQ(words(1, 1, 1, 6), 11);
  EXPECT_EQ(words(7, 3, 2, 12), 175);
  EXPECT_EQ(words(3, 11, 5, 24), 543);
  EXPECT_EQ(words(40, 9, 6, 64), 2404);
  EXPECT_EQ(words(97, 83, 20, 500), 49657);
  EXPECT_EQ(words(300, 200, 48, 1000), 574572);
  EXPECT_EQ(words(200, 300, 48, 4000), 285128);
}

// The h-form multiplies by dv columns where the g-form takes d.
TEST(WordLevel, TheHFormPaysWhereDvIsSmall) {
  const LayerShape narrow = {4096, 4096, 512, 16, Tie::none};
  const index_t M = 1024;
  EXPECT_LT(stationary_backward(narrow, M, Form::h)->total(),
            stationary_backward(narrow, M, Form::g)->total());
  EXPECT_LT(half_dim_backward(narrow, M, Form::h)->total(),
            half_dim_backward(narrow, M, Form::g)->total());
  EXPECT_LT(q_stored_backward(narrow, 2 * M, Form::h)->total(),
            q_stored_backward(narrow, 2 * M, Form::g)->total());
  EXPECT_LT(stationary_forward(narrow, M, Form::h)->total(),
            stationary_forward(narrow, M, Form::g)->total());
  const LayerShape square = {4096, 4096, 512, 512, Tie::none};
  EXPECT_EQ(stationary_backward(square, M, Form::h), stationary_backward(square, M, Form::g));
  EXPECT_EQ(stationary_forward(square, M, Form::h), stationary_forward(square, M, Form::g));
}

}  // namespace
}  // namespace ioattn::theory::word_level
