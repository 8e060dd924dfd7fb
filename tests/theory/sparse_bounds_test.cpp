#include "theory/sparse_bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "theory/bounds.hpp"
#include "theory/word_level_products.hpp"

namespace ioattn::theory {
namespace {

SparseCounts dense(double n, double d) { return {n * d, n * d, d * d, n * d, n * d, n * n}; }
SparseCounts identity(double n) { return {n, n, n, n, n, n}; }

// What the paper's theorem rests on, with constant 1, for one product C = A B (Pagh and Stoeckel,
// 2014): `inputs` of A and B together, `outputs` of C.
double product_formula(double inputs, double outputs, index_t M) {
  return std::min(inputs * inputs / double(M), inputs * std::sqrt(outputs / double(M)));
}

// With every entry there, the sparse formulas are the dense ones.
TEST(SparseBounds, DenseInstances) {
  for (const index_t n : {64, 1000, 4096}) {
    for (const index_t d : {8, 64}) {
      const SparseCounts counts = dense(double(n), double(d));
      for (const index_t M : {1, 50, 64, 4096, 100000}) {
        const double formula = paper_formula({n, n, d, d, Tie::none}, M);
        EXPECT_NEAR(paper_sparse_formula(counts, M), formula, 1e-12 * formula);
      }
      EXPECT_NEAR(paper_sparse_dividing_point(counts), double(d * d), 1e-9 * double(d * d));
      // bound_c of the scores alone: as attention, less q, p and what they take.
      const double nd = double(n) * double(d), nn = double(n) * double(n);
      const SparseProducts products = {nn * double(d) + nd * double(d), nd};
      const double sound = sparse_products_bound(counts, products, 64);
      const double expected = 2 * products.multiply_adds / 8 - 2 * 64 - nd - nn;
      EXPECT_DOUBLE_EQ(sound, std::max(expected, 2 * nd + double(d * d)));
      const SparseProducts tied = {products.multiply_adds, nd, true};
      const double of_tied = 2 * products.multiply_adds / (8 * std::sqrt(2.0)) - 2 * 64 - nd - nn;
      EXPECT_DOUBLE_EQ(sparse_products_bound(counts, tied, 64),
                       std::max(of_tied, nd + double(d * d)));
    }
  }
}

// A1 = X = A2 = I: n words of each are read and n of the result written, three products an entry.
TEST(SparseBounds, TheWorstCaseIsNotTheCaseAtHandIdentity) {
  const double n = 4096;
  const double moved = 4 * n;
  EXPECT_EQ(paper_sparse_formula(identity(n), 64), 65536);
  EXPECT_GT(paper_sparse_formula(identity(n), 64), moved);
  const SparseProducts products = {2 * n, n, false, true};
  EXPECT_LE(sparse_products_bound(identity(n), products, 64), moved);
  EXPECT_EQ(sparse_products_bound(identity(n), products, 64), moved);  // and it is met
  const SparseProducts tied = {2 * n, n, true, true};                  // A2 = A1 is read once
  EXPECT_EQ(sparse_products_bound(identity(n), tied, 64), moved - n);
}

// One dense product, A1 X with n = 4096, d = 16, M = 64: counted blocks move a sixth of the claim.
TEST(SparseBounds, TheWorstCaseIsNotTheCaseAtHandDenseProduct) {
  const index_t n = 4096, d = 16, M = 64;
  const double claim = product_formula(double(n * d + d * d), double(n * d), M);
  EXPECT_NEAR(claim, 2.105e6, 1e3);
  const auto reads = word_level::least_product_reads(n, d, d, M);
  ASSERT_TRUE(reads.has_value());
  EXPECT_LE(*reads + n * d, 346624);
  EXPECT_LT(double(*reads + n * d), claim / 6);
}

// A1 X and its product with A2^T may be on different sides of their dividing points. The lesser
// of both sums, which the proof takes, is then more than the sum of what the lemma gives each.
TEST(SparseBounds, TheLesserOfTheSumsIsNotTheSumOfTheLesser) {
  const double n = 4096, d = 16, M = 2048;
  const double thin = n * d + d * d, wide = n * d + n * d;  // entries of the factors
  const double thin_large = thin * thin / M, thin_small = thin * std::sqrt(n * d / M);
  const double wide_large = wide * wide / M, wide_small = wide * std::sqrt(n * n / M);
  EXPECT_EQ(product_formula(thin, n * d, 2048), thin_small);
  EXPECT_EQ(product_formula(wide, n * n, 2048), wide_large);
  EXPECT_GT(std::min(thin_large + wide_large, thin_small + wide_small),
            1.15 * (thin_small + wide_large));
}

// The branches meet where the dividing point says, and the formula is continuous and falls with M.
TEST(SparseBounds, DividingPoint) {
  const SparseCounts counts = {4732, 5000, 320, 4700, 4800, 30000};
  const double at = paper_sparse_dividing_point(counts);
  const double z = 4732, ax = 4700;
  EXPECT_NEAR((z * z + z * 320) / at,
              (z * std::sqrt(30000.0) + std::sqrt(z * 320 * ax)) / std::sqrt(at), 1e-6);
  const SparseProducts products = {90000, 4700};
  double before = paper_sparse_formula(counts, 1);
  double sound_before = sparse_products_bound(counts, products, 1);
  for (index_t M = 2; M < 5000; M += M / 7 + 1) {
    const double formula = paper_sparse_formula(counts, M);
    EXPECT_LT(formula, before);
    before = formula;
    const double sound = sparse_products_bound(counts, products, M);
    EXPECT_LE(sound, sound_before);
    sound_before = sound;
  }
  EXPECT_EQ(paper_sparse_dividing_point({}), 0);
}

}  // namespace
}  // namespace ioattn::theory
