#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace ioattn_test {

// Products of pairs under test.
struct PairImplementation {
  const char* name;
  const ioattn::kernels::PairKernels* pairs;
  ioattn::index_t nr;
};

// Those that this CPU runs, all of them or those by tiles. By its own tiles only if it was asked
// for them, or if their instructions are trapped (trapped_tiles.hpp).
std::vector<PairImplementation> pair_implementations();
std::vector<PairImplementation> tile_implementations();

// Runs once per implementation; each test is a region of its kernels.
class PairImplementationTest : public testing::TestWithParam<PairImplementation> {
 protected:
  const ioattn::kernels::PairKernels& pairs() const { return *GetParam().pairs; }
  ioattn::index_t nr() const { return GetParam().nr; }

 private:
  ioattn::kernels::PairRegion region_{GetParam().pairs};
};
#define IOATTN_FOR_EACH_PAIR_IMPLEMENTATION(suite, implementations)        \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(implementations), \
                           [](const auto& tested) { return std::string(tested.param.name); })

}  // namespace ioattn_test
