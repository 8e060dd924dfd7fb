// Products of few rows by operands that are not packed, and weights of their scores: the bits of
// what packs, multiplies and weighs.

#include <cmath>
#include <random>

#include "base/half.hpp"
#include "kernels/guarded_pages.hpp"
#include "kernels/implementations.hpp"
#include "kernels/pair_implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using kernels::bf16x2;
using kernels::PairKernels;
using Pairs = kernels::Product<float, bf16x2>;

class FewPairsTest : public PairImplementationTest {
 protected:
  FewPairsTest() : PairImplementationTest(11) {}
  float normal() { return std::normal_distribution<float>()(random_); }
  bf16 random_half() { return from_float<bf16>(normal()); }
};

// Every operand ends, or begins, at a page that faults.
TEST_P(FewPairsTest, ProductIsThatOfPackedTerms) {
  for (int trial = 0; trial < 400 && !HasFailure(); ++trial) {
    const index_t rows = uniform(1, PairKernels::few_rows), cols = uniform(1, 300);
    const index_t terms = trial % 9 == 0 ? uniform(500, 1100) : uniform(1, 150);
    const index_t depth = ceil_div(terms, 2), panels = ceil_div(cols, nr());
    const bool by_lanes = trial % 2 == 0;
    const index_t lane_stride = by_lanes ? 1 : terms + uniform(0, 40);
    const index_t depth_stride = by_lanes ? cols + uniform(0, 40) : 1;
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << " of " << terms << " terms, "
                                    << (by_lanes ? "lanes" : "terms") << " adjacent");
    const Side side = trial % 4 < 2 ? Side::start : Side::end;
    const index_t span = (cols - 1) * lane_stride + (terms - 1) * depth_stride + 1;
    GuardedPages of_b(std::size_t(span) * sizeof(bf16));
    bf16* const b = of_b.place<bf16>(span, side);
    for (index_t i = 0; i < span; ++i) b[i] = random_half();
    const index_t a_row = depth + uniform(0, 5), of_rows = (rows - 1) * a_row + depth;
    GuardedPages of_a(std::size_t(of_rows) * sizeof(bf16x2));
    bf16x2* const a = of_a.place<bf16x2>(of_rows, side);
    for (index_t i = 0; i < of_rows; ++i)
      a[i] = {std::uint32_t{random_half().bits} | std::uint32_t{random_half().bits} << 16};
    if (terms % 2 != 0)
      for (index_t i = 0; i < rows; ++i) a[i * a_row + depth - 1].bits &= 0xffff;

    std::vector<bf16x2> packed(std::size_t(panels * depth * nr()));
    pairs().pack(b, lane_stride, depth_stride, cols, terms, packed.data());
    const index_t stride = cols + uniform(0, 3), of_c = (rows - 1) * stride + cols;
    std::vector<float> before(std::size_t(panels * nr() * rows)), factors(std::size_t(rows), 0.f);
    for (float& x : before) x = normal();
    for (float& x : factors) x = normal();
    Pairs p = dense_product(rows, cols, depth, a, packed.data(), nullptr, nr());
    p.a.row = a_row;
    p.accumulate = trial % 3 != 0;
    p.row_scale = trial % 3 == 1 ? factors.data() : nullptr;
    p.scale = trial % 5 == 0 ? 0.3f : 1;
    std::vector<float> expected = before;
    Pairs whole = p;
    whole.c.data = expected.data();
    whole.padded = true;
    pairs().product(whole);
    GuardedPages pages(std::size_t(of_c) * sizeof(float));
    float* const c = pages.place<float>(of_c, side);
    for (index_t k = 0; k < of_c; ++k) {
      const index_t i = k / stride, j = k % stride;
      c[k] = j < cols ? before[std::size_t(i * whole.c.row + j)] : 5;
    }
    p.c = {c, nr(), stride};
    if (trial % 7 == 0) p.ahead = {b, by_lanes ? terms : cols, 2, 2};
    pairs().few_product(p, {b, lane_stride, depth_stride, terms});
    for (index_t k = 0; k < of_c; ++k) {
      const index_t i = k / stride, j = k % stride;
      const float wanted = j < cols ? expected[std::size_t(i * whole.c.row + j)] : 5;
      ASSERT_TRUE(same_bits(c[k], wanted)) << i << ", " << j << ": " << c[k] << ", not " << wanted;
    }
  }
}

// Where maxima stay; else sums are as they were.
TEST_P(FewPairsTest, WeightsAreThoseOfRows) {
  int made = 0, refused = 0;
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    const index_t queries = uniform(1, PairKernels::few_rows), keys = uniform(1, 150);
    const index_t stride = keys + uniform(0, 3), dst_stride = ceil_div(keys, 2) + uniform(0, 3);
    const auto rows = std::size_t(queries);
    std::vector<float> tile(rows * std::size_t(stride));
    for (float& x : tile) x = 2 * normal();
    std::vector<float> row_max(rows), row_sum(rows, 3.f), rescale(rows);
    for (float& max : row_max) max = normal() + 4;
    if (trial % 6 == 0) row_max[std::size_t(uniform(0, queries - 1))] = -INFINITY;
    if (trial % 12 == 2) row_max[0] = 0x1p21f;  // an exponent's rounding would be the weight's
    if (trial % 6 == 1) tile[std::size_t(uniform(0, keys - 1))] = 1000;
    const float scale = 0.7f;
    std::vector<bf16x2> few(rows * std::size_t(dst_stride), bf16x2{7}), all = few;
    std::vector<float> few_sum = row_sum, new_max = row_max;
    const kernels::ScoreTile<float> scores = {tile.data(), stride, keys, queries};
    const bool done = pairs().few_weights(
        scores, {scale, row_max.data(), few_sum.data(), few.data(), dst_stride});
    pairs().softmax_rows(scores, scale, new_max.data(), row_sum.data(), rescale.data(), all.data(),
                         dst_stride, 0);
    if (new_max != row_max || (pairs().weights != nullptr && row_max[0] >= 0x1p12f)) {
      ASSERT_FALSE(done);
    }
    if (!done) {
      ++refused;
      for (const float sum : few_sum) ASSERT_EQ(sum, 3);
      continue;
    }
    ++made;
    for (std::size_t i = 0; i < rows; ++i) ASSERT_TRUE(same_bits(few_sum[i], row_sum[i])) << i;
    for (std::size_t k = 0; k < few.size(); ++k) ASSERT_EQ(few[k].bits, all[k].bits) << k;
  }
  EXPECT_GT(made, 100);
  EXPECT_GT(refused, 50);
}

IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(FewPairsTest, few_implementations());

}  // namespace
}  // namespace ioattn_test
