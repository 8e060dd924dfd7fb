// Attention without softmax, re-associated: run with the products of the schedules, its values are
// those of the products in attention's order, its counts those of the formula, and they lie below
// what attention cannot.
#include "theory/linear_attention.hpp"

#include <gtest/gtest.h>

#include "instruments/io_counter.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/trace.hpp"
#include "status_ok.hpp"
#include "theory/bounds.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using schedules::Factor;

struct Dense {
  index_t rows, cols;
  std::vector<double> values;

  Dense(index_t row_count, index_t col_count)
      : rows(row_count), cols(col_count), values(std::size_t(row_count * col_count + 16)) {}
  double& at(index_t i, index_t j) { return values[std::size_t(i * cols + j)]; }
  Factor<double> factor(Operand operand) { return {operand, values.data(), cols, 1, false, false}; }

  Dense transposed() {
    Dense result(cols, rows);
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < cols; ++j) result.at(j, i) = at(i, j);
    }
    return result;
  }
  Dense times(Dense b) {
    Dense result(rows, b.cols);
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < b.cols; ++j) {
        for (index_t k = 0; k < cols; ++k) result.at(i, j) += at(i, k) * b.at(k, j);
      }
    }
    return result;
  }
};

Dense random_matrix(index_t rows, index_t cols, RandomProblem* random) {
  Dense result(rows, cols);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < cols; ++j) result.at(i, j) = double(random->uniform(-2, 2));
  }
  return result;
}

// c = a b, counted.
void multiply(const char* name, const Factor<const double>& a, const Factor<const double>& b,
              const Factor<double>& c, index_t rows, index_t inner, index_t cols,
              const ProductBlocks& blocks, Observer* observer) {
  schedules::WorkspaceLayout layout;
  const auto& kernels = odd_tile<double>();
  const schedules::ProductPass<double> pass(rows, inner, cols, blocks, kernels.tile.cols, 1,
                                            &layout);
  schedules::WorkspaceMemory buffer;
  ASSERT_OK(layout.allocate(nullptr, &buffer));
  const schedules::Trace trace(observer);
  trace.phase(name);
  pass.run(kernels, trace, a, b, c, buffer.data(), false);
}

void expect_equal(Dense* got, Dense* wanted) {
  for (index_t i = 0; i < wanted->rows; ++i) {
    for (index_t j = 0; j < wanted->cols; ++j) ASSERT_EQ(got->at(i, j), wanted->at(i, j));
  }
}

TEST(LinearAttention, CountsAreTheFormulaAndValuesThoseOfTheOtherOrder) {
  RandomProblem random(60);
  for (int round = 0; round < 150; ++round) {
    LayerShape shape = random.shape(50, 16);
    shape.tie = Tie::none;
    const auto [n, m, d, e, tie, mask] = shape;
    const index_t M = random.logarithmic(theory::linear_least_M, 1000);
    SCOPED_TRACE(to_text(LayerProblem{shape}) + " M=" + std::to_string(M));
    Dense a1 = random_matrix(n, d, &random), a2 = random_matrix(m, d, &random);
    Dense a3 = random_matrix(m, d, &random), x = random_matrix(d, d, &random);
    Dense y = random_matrix(d, e, &random), d_o = random_matrix(n, e, &random);
    const auto in = [](Dense* matrix, Operand operand) {
      return as_const(matrix->factor(operand));
    };
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto blocks = theory::linear_blocks(pass, shape, M);
      ASSERT_TRUE(blocks.has_value());
      const theory::ScheduleCost cost = theory::linear_cost(pass, shape, *blocks);
      EXPECT_LE(cost.total().footprint, M);
      instruments::IoCounter counter;
      if (pass == Pass::forward) {
        Dense k(d, d), xk(d, d), xky(d, e), o(n, e);
        multiply("A2^T A3", transposed(in(&a2, Operand::A2)), in(&a3, Operand::A3),
                 k.factor(Operand::K), d, m, d, (*blocks)[0], &counter);
        multiply("X K", in(&x, Operand::X), in(&k, Operand::K), xk.factor(Operand::T), d, d, d,
                 (*blocks)[1], &counter);
        multiply("X K Y", in(&xk, Operand::T), in(&y, Operand::Y), xky.factor(Operand::W), d, d, e,
                 (*blocks)[2], &counter);
        multiply("O", in(&a1, Operand::A1), in(&xky, Operand::W), o.factor(Operand::O), n, d, e,
                 (*blocks)[3], &counter);
        Dense wanted = a1.times(x).times(a2.transposed()).times(a3.times(y));
        expect_equal(&o, &wanted);
      } else {
        Dense b(d, e), r(d, d), k(d, d), dx(d, d);
        multiply("A1^T dO", transposed(in(&a1, Operand::A1)), in(&d_o, Operand::dO),
                 b.factor(Operand::W), d, n, e, (*blocks)[0], &counter);
        multiply("A1^T G", in(&b, Operand::W), transposed(in(&y, Operand::Y)), r.factor(Operand::T),
                 d, e, d, (*blocks)[1], &counter);
        multiply("A3^T A2", transposed(in(&a3, Operand::A3)), in(&a2, Operand::A2),
                 k.factor(Operand::K), d, m, d, (*blocks)[2], &counter);
        multiply("dX", in(&r, Operand::T), in(&k, Operand::K), dx.factor(Operand::dX), d, d, d,
                 (*blocks)[3], &counter);
        // p = q without softmax: dX = A1^T (dO h^T) A2.
        Dense q = d_o.times(a3.times(y).transposed());
        Dense wanted = a1.transposed().times(q).times(a2);
        expect_equal(&dx, &wanted);
      }
      ASSERT_EQ(counter.violation(), "");
      ASSERT_EQ(int(counter.phases().size()), cost.phase_count);
      for (std::size_t i = 0; i < counter.phases().size(); ++i) {
        const theory::PhaseCost& phase = cost.phases[i];
        EXPECT_STREQ(counter.phases()[i].name, phase.name);
        EXPECT_EQ(counter.phases()[i].count.reads, phase.cost.reads) << phase.name;
        EXPECT_EQ(counter.phases()[i].count.writes, phase.cost.writes) << phase.name;
        EXPECT_EQ(counter.phases()[i].count.footprint, phase.cost.footprint) << phase.name;
      }
    }
  }
}

// n times fewer words than any attention can move.
TEST(LinearAttention, EscapesTheBound) {
  const index_t d = 64, M = 4096;
  double before = 0;
  for (const index_t n : {4096, 8192, 16384}) {
    const LayerShape shape = {n, n, d, d, Tie::none};
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const double words = double(
          theory::linear_cost(pass, shape, *theory::linear_blocks(pass, shape, M)).total().words());
      const double bound = theory::lower_bound(pass, theory::AlgorithmClass::P, shape, M).words;
      EXPECT_LT(words, bound) << n;
      if (pass == Pass::backward) {
        EXPECT_GT(bound / words, 1.9 * before);  // proportional to n
        before = bound / words;
      }
    }
  }
  EXPECT_FALSE(theory::linear_blocks(Pass::forward, {9, 9, 3, 3, Tie::none}, 2).has_value());
}

// Where rows of a factor stay; tiles alone take 2268 and 1825.
TEST(LinearAttention, KeepsRowsWhereThatIsLess) {
  const auto words = [](const LayerShape& shape, index_t M) {
    const auto blocks = theory::linear_blocks(Pass::backward, shape, M);
    return theory::linear_cost(Pass::backward, shape, *blocks).total().words();
  };
  EXPECT_EQ(words({25, 5, 2, 20, Tie::none}, 4), 2264);
  EXPECT_EQ(words({30, 5, 5, 17, Tie::none}, 33), 1775);
}

}  // namespace
}  // namespace ioattn_test
