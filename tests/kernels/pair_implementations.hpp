#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace ioattn_test {

// Products of pairs under test.
struct PairImplementation {
  std::string name;
  const ioattn::kernels::PairKernels* pairs;
  ioattn::index_t nr;
};

// Those that this CPU runs, all of them or those by tiles. By its own tiles only if it was asked
// for them, or if their instructions are trapped (trapped_tiles.hpp).
std::vector<PairImplementation> pair_implementations();
std::vector<PairImplementation> tile_implementations();
std::vector<PairImplementation> weighing_implementations();  // that have weights
std::vector<PairImplementation> few_implementations();       // that have products of few rows
std::vector<PairImplementation> gradient_implementations();  // that have gradients

// Dense rows of A times panels of B, in rows of whole panels.
inline ioattn::kernels::Product<float, ioattn::kernels::bf16x2> dense_product(
    ioattn::index_t rows, ioattn::index_t cols, ioattn::index_t depth,
    const ioattn::kernels::bf16x2* a, const ioattn::kernels::bf16x2* b, float* c,
    ioattn::index_t nr) {
  ioattn::kernels::Product<float, ioattn::kernels::bf16x2> p;
  p.rows = rows;
  p.cols = cols;
  p.depth = depth;
  p.a = {a, depth, 1};
  p.b = {b, depth * nr, nr};
  p.c = {c, nr, ioattn::round_up(cols, nr)};
  return p;
}

// Runs once per implementation; each test is a region of its kernels.
class PairImplementationTest : public testing::TestWithParam<PairImplementation> {
 protected:
  explicit PairImplementationTest(unsigned seed = 1) : random_(seed) {}
  const ioattn::kernels::PairKernels& pairs() const { return *GetParam().pairs; }
  ioattn::index_t nr() const { return GetParam().nr; }
  ioattn::index_t uniform(ioattn::index_t low, ioattn::index_t high) {
    return std::uniform_int_distribution<ioattn::index_t>(low, high)(random_);
  }

  std::mt19937 random_;

 private:
  ioattn::kernels::PairRegion region_{GetParam().pairs};
};
#define IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(suite, implementations)        \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(implementations), \
                           [](const auto& tested) { return std::string(tested.param.name); })

}  // namespace ioattn_test
