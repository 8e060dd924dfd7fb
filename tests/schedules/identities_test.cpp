// Checks of the gradient that need no reference result: finite differences of the library's own
// forward pass, the adjoint identity, and that the rows of p sum to 0.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "plan/blocks/blocking.hpp"
#include "reference/cases.hpp"
#include "schedules/schedules.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;
using Matrix = ref::Matrix<double>;

MatrixView<double> view(Matrix* m) {
  return {m->values.data(), index_t(m->rows), index_t(m->cols), index_t(m->cols)};
}
MatrixView<const double> view(const Matrix& m) {
  return {m.values.data(), index_t(m.rows), index_t(m.cols), index_t(m.cols)};
}
LayerInputs<double> inputs_of(const ref::LayerInputs<double>& in) {
  return {view(in.A1), view(in.A2), view(in.A3), view(in.X), view(in.Y)};
}

const kernels::KernelTable<double>& best_kernels() {
  const kernels::Kernels* kernels = nullptr;
  EXPECT_OK(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  return kernels->table<double>();
}

Blocks blocks_for(const Variant& variant, const LayerShape& shape, index_t M) {
  Blocks blocks;
  EXPECT_TRUE(plan::choose_blocks(variant, false, shape, M, best_kernels().tile, &blocks));
  return blocks;
}

struct Outputs {
  Matrix o, lse;
};

Outputs forward(const ref::LayerInputs<double>& in) {
  const LayerInputs<double> inputs = inputs_of(in);
  const LayerShape shape = shape_of(inputs);
  Outputs out = {Matrix(in.dO.rows, in.dO.cols), Matrix(in.dO.rows, 1)};
  const Blocks blocks = blocks_for({Pass::forward, Schedule::row_stream}, shape, 1 << 20);
  EXPECT_OK(schedules::row_stream_forward(schedules::ForwardTask<double>{
      {&best_kernels(), 1, nullptr}, shape, inputs, view(&out.o), out.lse.values.data(), blocks}));
  return out;
}

std::vector<Variant> backward_variants() {
  std::vector<Variant> list;
  for (const Variant& v : variants()) {
    if (v.pass == Pass::backward) list.push_back(v);
  }
  return list;
}

Matrix backward(const Variant& v, const ref::LayerInputs<double>& in) {
  const LayerInputs<double> inputs = inputs_of(in);
  const LayerShape shape = shape_of(inputs);
  const Outputs out = forward(in);
  Matrix dx(in.X.rows, in.X.cols);
  const index_t M = 3 * plan::least_fast_memory(v, shape);
  const Blocks blocks = blocks_for(v, shape, M);
  EXPECT_OK(schedules::run_backward(v.schedule,
                                    schedules::BackwardTask<double>{{&best_kernels(), 1, nullptr},
                                                                    shape,
                                                                    inputs,
                                                                    view(in.dO),
                                                                    view(out.o),
                                                                    out.lse.values.data(),
                                                                    view(&dx),
                                                                    blocks}));
  return dx;
}

TEST(Identities, FiniteDifferencesOfTheForwardPass) {
  const ref::CaseShape shape = {9, 11, 5, 3, ref::Ties::none};
  ref::LayerInputs<double> in = ref::make_case(ref::Kind::normal, shape, 3);
  constexpr double step = 1e-6, absolute = 1e-5, relative = 1e-3;  // PyTorch's gradcheck
  Matrix numeric(in.X.rows, in.X.cols);
  for (std::size_t i = 0; i < in.X.values.size(); ++i) {
    const double x = in.X.values[i];
    in.X.values[i] = x + step;
    const double above = ref::inner(forward(in).o, in.dO);
    in.X.values[i] = x - step;
    const double below = ref::inner(forward(in).o, in.dO);
    in.X.values[i] = x;
    numeric.values[i] = (above - below) / (2 * step);
  }
  for (const Variant& v : backward_variants()) {
    const Matrix dx = backward(v, in);
    for (std::size_t i = 0; i < dx.values.size(); ++i) {
      EXPECT_LE(std::abs(dx.values[i] - numeric.values[i]),
                absolute + relative * std::abs(numeric.values[i]))
          << name_of(v.schedule) << " entry " << i;
    }
  }
}

TEST(Identities, AdjointOfTheTangent) {
  const ref::CaseShape shape = {60, 45, 20, 12, ref::Ties::none};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const ref::LayerInputs<double> in = ref::make_case(ref::Kind::normal, shape, seed);
    const Matrix direction = ref::random_matrix(20, 20, seed + 100);
    for (const Variant& v : backward_variants()) {
      EXPECT_LE(ref::adjoint_identity(in, direction, backward(v, in)).gap(), 1e-10)
          << name_of(v.schedule);
    }
  }
}

// A column of ones in A2 makes the last column of U = p A2 the row sums of p.
TEST(Identities, RowsOfPSumToZero) {
  const ref::CaseShape shape = {40, 50, 17, 9, ref::Ties::none};
  ref::LayerInputs<double> in = ref::make_case(ref::Kind::normal, shape, 8);
  for (std::size_t j = 0; j < in.A2.rows; ++j) in.A2(j, in.A2.cols - 1) = 1;
  for (const Variant& v : backward_variants()) {
    const Matrix dx = backward(v, in);
    double largest = 0;
    for (const double value : dx.values) largest = std::max(largest, std::abs(value));
    ASSERT_GT(largest, 0.1);
    for (std::size_t k = 0; k < dx.rows; ++k) {
      EXPECT_LE(std::abs(dx(k, dx.cols - 1)), 1e-13 * largest) << name_of(v.schedule);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
