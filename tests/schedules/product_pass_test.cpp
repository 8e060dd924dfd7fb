// One product through memory, in every layout: its values, its exact cost, and the same bits for
// every number of threads.

#include "schedules/products/product_pass.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "instruments/io_counter.hpp"
#include "plan/blocks/product_blocks.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/thread_counts.hpp"
#include "schedules/trace.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using schedules::Factor;

struct Case {
  index_t n1, k, n2;
  bool a_transposed, b_transposed, c_transposed;  // in memory
  bool accumulate;
  ProductBlocks blocks;
};

// A rows x cols matrix in memory, stored by rows or by columns, NaN in the padding.
struct Stored {
  std::vector<double> values;
  index_t stride;
  bool transposed;

  Stored(index_t rows, index_t cols, bool stored_by_columns, RandomProblem* random)
      : stride((stored_by_columns ? rows : cols) + random->uniform(0, 3)),
        transposed(stored_by_columns) {
    values.assign(static_cast<std::size_t>((stored_by_columns ? cols : rows) * stride + 16),
                  std::numeric_limits<double>::quiet_NaN());
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j)
        at(i, j) = static_cast<double>(random->uniform(-4, 4));  // sums are exact
  }
  double& at(index_t i, index_t j) {
    return values[static_cast<std::size_t>(transposed ? j * stride + i : i * stride + j)];
  }
  Factor<double> factor(Operand operand) {
    return transposed ? Factor<double>{operand, values.data(), 1, stride, false, false}
                      : Factor<double>{operand, values.data(), stride, 1, false, false};
  }
};

std::vector<double> run(const Case& c, Stored a, Stored b, Stored result, int threads,
                        Observer* observer) {
  schedules::WorkspaceLayout layout;
  const auto& kernels = odd_tile<double>();
  const schedules::ProductPass<double> pass(c.n1, c.k, c.n2, c.blocks, kernels.tile.cols, threads,
                                            &layout);
  schedules::WorkspaceMemory buffer;
  EXPECT_OK(layout.allocate(nullptr, &buffer));
  const schedules::Trace trace(observer);
  trace.phase("product");
  pass.run(kernels, trace, as_const(a.factor(Operand::S)), as_const(b.factor(Operand::A2)),
           result.factor(Operand::scores), buffer.data(), c.accumulate);
  return result.values;
}

TEST(ProductPass, ValuesCostsAndThreads) {
  RandomProblem random(40);
  int kept = 0, split = 0;
  for (int round = 0; round < 1500; ++round) {
    Case c = {random.logarithmic(1, 60), random.logarithmic(1, 40),
              random.logarithmic(1, 60), random.uniform(0, 1) == 1,
              random.uniform(0, 1) == 1, random.uniform(0, 1) == 1,
              random.uniform(0, 1) == 1, {}};
    if (round % 2 == 0) {
      c.blocks = {random.logarithmic(1, 70), random.logarithmic(1, 70), random.logarithmic(1, 50),
                  random.uniform(0, 1) == 1};
    } else {
      const index_t M = random.logarithmic(3, 5000);
      c.blocks = plan::choose_product({c.n1, c.k, c.n2}, M);
      ASSERT_LE(theory::product_cost(c.n1, c.k, c.n2, c.blocks).footprint, M);
    }
    SCOPED_TRACE(std::to_string(c.n1) + "x" + std::to_string(c.k) + "x" + std::to_string(c.n2) +
                 " tiles " + std::to_string(c.blocks.rows) + "x" + std::to_string(c.blocks.cols) +
                 "x" + std::to_string(c.blocks.depth) + (c.blocks.keep_a ? "a" : ""));
    kept += c.blocks.keep_a;
    split += c.blocks.rows > 5 && c.n1 > 5;
    Stored a(c.n1, c.k, c.a_transposed, &random), b(c.k, c.n2, c.b_transposed, &random);
    Stored result(c.n1, c.n2, c.c_transposed, &random);
    if (!c.accumulate) {
      std::fill(result.values.begin(), result.values.end(),
                std::numeric_limits<double>::quiet_NaN());
    }
    Stored wanted = result;
    for (index_t i = 0; i < c.n1; ++i) {
      for (index_t j = 0; j < c.n2; ++j) {
        double sum = c.accumulate ? result.at(i, j) : 0;
        for (index_t q = 0; q < c.k; ++q) sum += a.at(i, q) * b.at(q, j);
        wanted.at(i, j) = sum;
      }
    }
    instruments::IoCounter counter;
    const std::vector<double> counted = run(c, a, b, result, 1, &counter);
    ASSERT_EQ(counter.violation(), "");
    const IoCost cost = theory::product_cost(c.n1, c.k, c.n2, c.blocks, c.accumulate);
    ASSERT_EQ(counter.total().reads, cost.reads);
    ASSERT_EQ(counter.total().writes, cost.writes);
    ASSERT_EQ(counter.total().created, cost.created);
    ASSERT_EQ(counter.total().footprint, cost.footprint);
    for (int threads : {1, 1 + round % 5}) {
      const std::vector<double> got = run(c, a, b, result, threads, nullptr);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(got[i] == wanted.values[i] ||
                    (std::isnan(got[i]) && std::isnan(wanted.values[i])))
            << i << " threads=" << threads;
      }
    }
    ASSERT_EQ(std::memcmp(counted.data(), run(c, a, b, result, 1, nullptr).data(),
                          counted.size() * sizeof(double)),
              0);
  }
  EXPECT_GT(kept, 300);
  EXPECT_GT(split, 300);
}

// Sums that round differently in another order.
TEST(ProductPass, ThreadsDoNotChangeABit) {
  RandomProblem random(41);
  for (int round = 0; round < 100; ++round) {
    Case c = {random.logarithmic(1, 60),
              random.logarithmic(1, 600),
              random.logarithmic(1, 20),
              false,
              false,
              round % 2 == 0,
              false,
              {}};
    c.blocks = plan::choose_product({c.n1, c.k, c.n2}, random.logarithmic(3, 20000));
    Stored a(c.n1, c.k, false, &random), b(c.k, c.n2, false, &random);
    Stored result(c.n1, c.n2, c.c_transposed, &random);
    for (double& value : a.values) value *= 0.1;
    for (double& value : b.values) value = std::exp(value);
    std::fill(result.values.begin(), result.values.end(), 0.0);
    const std::vector<double> one = run(c, a, b, result, 1, nullptr);
    for (const int threads : some_thread_counts(round / 2)) {
      ASSERT_EQ(std::memcmp(one.data(), run(c, a, b, result, threads, nullptr).data(),
                            one.size() * sizeof(double)),
                0)
          << c.n1 << "x" << c.k << "x" << c.n2 << " threads=" << threads;
    }
  }
}

// Kept rows a multiple of 2 KiB apart are copied: the bits are those of any other stride, for any
// threads.
TEST(ProductPass, RowsFarApartChangeNoBit) {
  const Case c = {256, 40, 17, true, false, false, false, {37, 9, 11, true}};
  RandomProblem random(41);
  Stored near(c.n1, c.k, true, &random);
  const Stored b(c.k, c.n2, false, &random), result(c.n1, c.n2, false, &random);
  near.stride = 256;
  Stored apart = near;
  apart.stride = 257;
  apart.values.resize(static_cast<std::size_t>(c.k * apart.stride + 16));
  for (index_t i = 0; i < c.n1; ++i)
    for (index_t j = 0; j < c.k; ++j) {
      near.at(i, j) = 1.0 / static_cast<double>(i + 3 * j + 1);
      apart.at(i, j) = 1.0 / static_cast<double>(i + 3 * j + 1);
    }
  const std::vector<double> expected = run(c, apart, b, result, 1, nullptr);
  for (const int threads : thread_counts) {
    const std::vector<double> got = run(c, near, b, result, threads, nullptr);
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(double)), 0) << threads;
  }
}

}  // namespace
}  // namespace ioattn_test
