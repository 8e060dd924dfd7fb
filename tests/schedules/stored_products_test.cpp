// What backward passes leave in memory on request: U, into a matrix of the caller's, with or
// without dX.

#include <gtest/gtest.h>

#include <cmath>

#include "plan/blocks/blocking.hpp"
#include "reference/cases.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/schedules.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;
using Matrix = ref::Matrix<double>;

MatrixView<const double> view(const Matrix& m) {
  return {m.values.data(), index_t(m.rows), index_t(m.cols), index_t(m.cols)};
}

// A matrix of NaN with padded rows.
struct Poisoned {
  index_t rows, cols, stride;
  std::vector<double> values;

  Poisoned(index_t row_count, index_t col_count)
      : rows(row_count),
        cols(col_count),
        stride(col_count + 3),
        values(static_cast<std::size_t>(row_count * stride), std::nan("")) {}
  MatrixView<double> view() { return {values.data(), rows, cols, stride}; }

  void expect_equal(const Matrix& wanted) const {
    double scale = 0;
    for (const double value : wanted.values) scale = std::max(scale, std::abs(value));
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < stride; ++j) {
        const double value = values[static_cast<std::size_t>(i * stride + j)];
        if (j >= cols) {
          ASSERT_TRUE(std::isnan(value)) << "written between its rows";
        } else {
          const double error = std::abs(value - wanted(std::size_t(i), std::size_t(j)));
          ASSERT_TRUE(error <= 1e-12 * scale) << i << ", " << j << ": error " << error;
        }
      }
  }
  void expect_untouched() const {
    for (const double value : values) ASSERT_TRUE(std::isnan(value));
  }
};

std::vector<Variant> stored_variants() {
  std::vector<Variant> list;
  for (const Variant& v : variants()) {
    if (v.pass == Pass::backward && v.products == Products::stored) list.push_back(v);
  }
  return list;
}

TEST(StoredProducts, ULeavesIntoTheCallersMatrix) {
  const ref::CaseShape shapes[] = {{1, 1, 1, 1, ref::Ties::none},
                                   {23, 31, 8, 5, ref::Ties::none},
                                   {40, 17, 13, 13, ref::Ties::keys_values},
                                   {19, 19, 6, 11, ref::Ties::all}};
  ASSERT_GE(stored_variants().size(), 2u);
  for (const ref::CaseShape& size : shapes) {
    const ref::LayerInputs<double> inputs = ref::make_case(ref::Kind::normal, size, 17);
    const ref::Forward<double> fwd = ref::forward(inputs);
    const ref::Backward<double> bwd = ref::backward(inputs, fwd);
    LayerInputs<double> in = {view(inputs.A1), view(inputs.A2), view(inputs.A3), view(inputs.X),
                              view(inputs.Y)};
    if (size.ties != ref::Ties::none) in.a3 = in.a2;
    if (size.ties == ref::Ties::all) in.a2 = in.a3 = in.a1;
    const LayerShape shape = shape_of(in);
    for (const Variant& v : stored_variants()) {
      for (const index_t factor : {1, 2, 100}) {
        for (const bool wants_dx : {true, false}) {
          SCOPED_TRACE(to_text(v) + " " + to_text(LayerProblem{shape, DType::f64}) + " " +
                       std::to_string(factor) + (wants_dx ? " dX" : ""));
          schedules::BackwardTask<double> task;
          task.shape = shape;
          task.in = in;
          task.d_o = view(inputs.dO);
          task.o = view(fwd.O);
          task.lse = fwd.L.values.data();
          Poisoned dx(shape.d, shape.d), u(shape.n, shape.d);
          if (wants_dx) task.dx = dx.view();
          task.u = u.view();
          task.kernels = &odd_tile<double>();
          task.threads = 2;
          ASSERT_TRUE(plan::choose_blocks(v, false, shape,
                                          factor * plan::least_fast_memory(v, shape),
                                          task.kernels->tile, &task.blocks));
          ASSERT_OK(schedules::run_backward(v.schedule, task));
          u.expect_equal(bwd.U);
          if (wants_dx) {
            dx.expect_equal(bwd.dX);
          } else {
            dx.expect_untouched();
          }
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
