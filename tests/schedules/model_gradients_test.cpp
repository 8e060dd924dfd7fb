// All gradients of a layer of a real model (tests/data/minilm) at several M, within 2e-6 (f32) and
// 1e-13 (f64) of the largest entry of each float64 gradient.

#include <gtest/gtest.h>

#include "data_path.hpp"
#include "instruments/io_counter.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "schedules/gradient_case.hpp"
#include "status_ok.hpp"
#include "tune/files/npy.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

ref::Matrix<double> read(const char* name) {
  const auto m = tune::read_npy<double>(data_path("minilm/" + std::string(name) + ".npy"));
  ref::Matrix<double> result(static_cast<std::size_t>(m.rows), static_cast<std::size_t>(m.cols));
  result.values = m.data;
  return result;
}

// The float64 results in any T: here the oracle need not be wider than the outputs.
struct Model {
  ref::LayerInputs<double> inputs = {read("A"), read("A"), read("A"),
                                     read("X"), read("Y"), read("dO")};
  ref::Forward<double> fwd = ref::forward(inputs);
  ref::Backward<double> bwd = ref::backward(inputs, fwd);
};
const Model& model() {
  static const Model model;
  return model;
}

template <class T>
void check_all(double allowed) {
  const Model& m = model();
  const Padded<T> a(m.inputs.A1, 0), x(m.inputs.X, 0), y(m.inputs.Y, 0), d_o(m.inputs.dO, 0);
  const Padded<T> o(m.fwd.O, 0), lse(m.fwd.L, 0);
  ref::Matrix<double> sum = m.bwd.dA1;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] += m.bwd.dA2.values[i] + m.bwd.dA3.values[i];
  }
  const kernels::Kernels* kernels = nullptr;
  ASSERT_OK(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  const kernels::KernelTable<T>& table = kernels->template table<T>();

  GradientSet with_y, sum_alone, every;
  with_y.dX = with_y.dY = with_y.dA = true;
  sum_alone.dA = true;
  every.dX = every.dY = every.dA1 = every.dA2 = every.dA3 = true;
  int runs = 0;
  for (const GradientSet& set : {with_y, sum_alone, every}) {
    for (const index_t M : {index_t(4096), index_t(98304), index_t(2000000)}) {
      schedules::GradientTask<T> task;
      task.in = {a.view(), a.view(), a.view(), x.view(), y.view()};
      task.shape = shape_of(task.in);
      task.d_o = d_o.view();
      task.o = o.view();
      task.lse = lse.values.data();
      task.kernels = &table;
      instruments::IoCounter counter;
      task.observer = &counter;
      const auto [n, keys, d, e, tie, mask] = task.shape;
      ASSERT_EQ(tie, Tie::all);
      plan::LayerRequest request;
      request.problem.shape = task.shape;
      request.M = M;
      request.tile = table.tile;
      plan::LayerPlan plan;
      ASSERT_OK(plan::make_gradient_plan(request, set, &plan));
      task.blocks = plan.blocks;
      SCOPED_TRACE(describe(set) + " " + to_text(plan, set, tie));

      Padded<T> dx(d, d, 0), dy(d, e, 0), da1(n, d, 0), da2(n, d, 0), da3(n, d, 0), da(n, d, 0);
      if (set.dX) task.out.dx = dx.view();
      if (set.dY) task.out.dy = dy.view();
      if (set.dA1) task.out.da1 = da1.view();
      if (set.dA2) task.out.da2 = da2.view();
      if (set.dA3) task.out.da3 = da3.view();
      if (set.dA) task.out.da = da.view();
      ASSERT_OK(schedules::layer_gradients(task));
      ++runs;
      const auto expect = [&](bool wanted, const char* name, const Padded<T>& out,
                              const ref::Matrix<double>& golden) {
        if (!wanted) return;
        EXPECT_LE(ref::max_relative_error(out.values.data(), static_cast<std::size_t>(out.stride),
                                          golden),
                  allowed)
            << name;
      };
      expect(set.dX, "dX", dx, m.bwd.dX);
      expect(set.dY, "dY", dy, m.bwd.dY);
      expect(set.dA1, "dA1", da1, m.bwd.dA1);
      expect(set.dA2, "dA2", da2, m.bwd.dA2);
      expect(set.dA3, "dA3", da3, m.bwd.dA3);
      expect(set.dA, "dA", da, sum);
      EXPECT_EQ(counter.violation(), "");
      EXPECT_LE(counter.total().footprint, M);
      EXPECT_EQ(counter.total().words(),
                theory::gradients_cost(task.shape, set, plan.blocks).total().words());
    }
  }
  EXPECT_EQ(runs, 9);
}

TEST(ModelGradients, InF32) { check_all<float>(2e-6); }
TEST(ModelGradients, InF64) { check_all<double>(1e-13); }

}  // namespace
}  // namespace ioattn_test
