// A layer of a real model (tests/data/minilm): every schedule at every M that it admits, from 200
// words to more than any L2, within 2e-6 (f32) and 1e-13 (f64) of the largest entry of the float64
// gradient.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data_path.hpp"
#include "instruments/io_counter.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "plan/blocks/blocking.hpp"
#include "reference/gauge.hpp"
#include "schedules/schedules.hpp"
#include "status_ok.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"
#include "tune/files/npy.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

std::string path(const char* name) { return data_path("minilm/" + std::string(name) + ".npy"); }

ref::Matrix<double> as_reference(const tune::Matrix<double>& m) {
  ref::Matrix<double> result(static_cast<std::size_t>(m.rows), static_cast<std::size_t>(m.cols));
  result.values = m.data;
  return result;
}

template <class T>
void check_all(double allowed) {
  const auto a = tune::read_npy<T>(path("A")), x = tune::read_npy<T>(path("X"));
  const auto y = tune::read_npy<T>(path("Y")), d_o = tune::read_npy<T>(path("dO"));
  const LayerInputs<T> in = {a.view(), a.view(), a.view(), x.view(), y.view()};
  const LayerShape shape = shape_of(in);
  const ref::LayerInputs<double> wide = {as_reference(tune::read_npy<double>(path("A"))),
                                         as_reference(tune::read_npy<double>(path("A"))),
                                         as_reference(tune::read_npy<double>(path("A"))),
                                         as_reference(tune::read_npy<double>(path("X"))),
                                         as_reference(tune::read_npy<double>(path("Y"))),
                                         as_reference(tune::read_npy<double>(path("dO")))};
  const ref::Forward<double> forward = ref::forward(wide);
  const ref::Matrix<double> golden = as_reference(tune::read_npy<double>(path("golden_dX")));
  std::vector<T> o_reference(forward.O.values.begin(), forward.O.values.end());
  std::vector<T> lse_reference(forward.L.values.begin(), forward.L.values.end());

  const kernels::Kernels* kernels = nullptr;
  ASSERT_OK(kernels::select_kernels(machine::this_machine().isa, nullptr, &kernels));
  const kernels::KernelTable<T>& table = kernels->template table<T>();
  const auto [n, m, d, e, tie, mask] = shape;
  int runs = 0;
  for (const Variant& v : variants()) {
    if (v.pass == Pass::backward_keys) continue;
    const index_t least = plan::least_fast_memory(v, shape);
    for (const index_t M :
         {index_t(200), index_t(1000), std::max(least, index_t(300)), index_t(4096), index_t(24576),
          index_t(98304), index_t(196608), index_t(393216), index_t(2000000)}) {
      // Without reuse, M changes nothing but the length of a read.
      if (v.schedule == Schedule::naive && M > 200 && M < 2000000) continue;
      Blocks blocks;
      if (!plan::choose_blocks(v, false, shape, M, table.tile, &blocks)) {
        EXPECT_LT(M, least);
        continue;
      }
      ++runs;
      SCOPED_TRACE(std::string(name_of(v.pass)) + " " + to_text(v) + " M=" + std::to_string(M) +
                   " " + name_of(dtype_of<T>::value));
      instruments::IoCounter counter;
      std::vector<T> o(o_reference.size()), lse(lse_reference.size()), dx(x.data.size());
      if (v.pass == Pass::forward) {
        ASSERT_OK(schedules::run_forward(
            v.schedule,
            schedules::ForwardTask<T>{
                {&table, 1, &counter}, shape, in, {o.data(), n, e, e}, lse.data(), blocks}));
        EXPECT_LE(ref::max_relative_error(o.data(), static_cast<std::size_t>(e), forward.O),
                  allowed);
      } else {
        ASSERT_OK(schedules::run_backward(v.schedule,
                                          schedules::BackwardTask<T>{{&table, 1, &counter},
                                                                     shape,
                                                                     in,
                                                                     d_o.view(),
                                                                     {o_reference.data(), n, e, e},
                                                                     lse_reference.data(),
                                                                     {dx.data(), d, d, d},
                                                                     blocks}));
        EXPECT_LE(ref::max_relative_error(dx.data(), static_cast<std::size_t>(d), golden), allowed);
      }
      EXPECT_EQ(counter.violation(), "");
      EXPECT_LE(counter.total().footprint, M);
      EXPECT_EQ(counter.total().words(),
                theory::io_cost(v.pass, v.schedule, shape, blocks).total().words());
      EXPECT_LE(theory::lower_bound(v.pass, theory::class_of(v.pass, v.schedule), shape, M).words,
                static_cast<double>(counter.total().words()));
    }
  }
  EXPECT_GE(runs, 45);
}

// The files are of the head that is named beside them.
TEST(ModelData, IsOfTheCase) {
  std::ifstream file(data_path("minilm/case.json"));
  const nlohmann::json of = nlohmann::json::parse(file);
  const index_t n = of["n"], d = of["d"], dv = of["d_v"], heads = of["heads"];
  const auto expect_sizes = [](const char* name, index_t rows, index_t cols) {
    const auto matrix = tune::read_npy<double>(path(name));
    EXPECT_EQ(matrix.rows, rows) << name;
    EXPECT_EQ(matrix.cols, cols) << name;
  };
  expect_sizes("A", n, d);
  expect_sizes("X", d, d);
  expect_sizes("Y", d, dv);
  expect_sizes("dO", n, dv);
  expect_sizes("golden_dX", d, d);
  EXPECT_EQ(d, heads * dv + 1);  // a column of ones: biases are folded in
  EXPECT_DOUBLE_EQ(of["scale"], 1 / std::sqrt(double(dv)));
}

TEST(ModelData, EveryScheduleAtEveryMInF32) { check_all<float>(2e-6); }
TEST(ModelData, EveryScheduleAtEveryMInF64) { check_all<double>(1e-13); }

}  // namespace
}  // namespace ioattn_test
