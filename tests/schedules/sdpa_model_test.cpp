// All attention heads of a layer of a real model (tests/data/sdpa): O, LSE and all gradients within
// 2e-6 (f32) and 1e-14 (f64) of the largest entry of the head's float64 results, on every
// instruction set of this CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "data_path.hpp"
#include "plan/sdpa/sdpa_planner.hpp"
#include "reference/sdpa_oracle.hpp"
#include "schedules/sdpa/sdpa.hpp"
#include "schedules/tables.hpp"
#include "status_ok.hpp"
#include "tune/files/npy.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

std::string path(const char* name) { return data_path("sdpa/" + std::string(name) + ".npy"); }

// An array of heads one after the other.
template <class T>
std::vector<T> read(const char* name, index_t* heads = nullptr, SdpaShape* shape = nullptr) {
  std::optional<index_t> batch;
  tune::Matrix<T> matrix = tune::read_npy<T>(path(name), &batch);
  if (heads != nullptr) *heads = batch.value();
  if (shape != nullptr) {
    shape->n = shape->m = matrix.rows / batch.value();
    shape->d = shape->dv = matrix.cols;
  }
  return matrix.data;
}

// The heads, and O, LSE, dQ, dK and dV of theirs in float64.
template <class T>
struct Model {
  TensorView<T> heads(std::vector<T>* values) const {
    return dense_tensor(values->data(), 1, shape.heads, shape.n, shape.d);
  }
  TensorView<T> rows(std::vector<T>* values) const {
    return dense_tensor(values->data(), 1, shape.heads, 1, shape.n);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(shape.d)); }

  SdpaShape shape;
  std::vector<T> q, k, v, d_o;
  std::array<std::vector<double>, 5> golden;
};

template <class T>
Model<T> two_heads() {
  Model<T> model;
  model.q = read<T>("Q", &model.shape.heads, &model.shape);
  model.shape.kv_heads = model.shape.heads;
  model.k = read<T>("K");
  model.v = read<T>("V");
  model.d_o = read<T>("dO");
  model.golden = {read<double>("golden_O"), read<double>("golden_LSE"), read<double>("golden_dQ"),
                  read<double>("golden_dK"), read<double>("golden_dV")};
  return model;
}

// The results are the oracle's.
template <class T>
Model<T> other_heads() {
  namespace ref = ioattn_reference;
  Model<T> model;
  index_t matrices = 0;
  const std::vector<T> all = read<T>("other_heads", &matrices, &model.shape);
  SdpaShape& shape = model.shape;
  shape.heads = shape.kv_heads = matrices / 4;
  const std::ptrdiff_t size = shape.heads * shape.n * shape.d;
  std::vector<T>* const arrays[] = {&model.q, &model.k, &model.v, &model.d_o};
  ref::SdpaInputs<double> in;
  ref::Tensor<double>* const wide[] = {&in.Q, &in.K, &in.V, &in.dO};
  for (std::ptrdiff_t i = 0; i < 4; ++i) {
    arrays[i]->assign(all.begin() + i * size, all.begin() + (i + 1) * size);
    *wide[i] = {1, std::size_t(shape.heads), std::size_t(shape.n), std::size_t(shape.d)};
    wide[i]->values.assign(arrays[i]->begin(), arrays[i]->end());
  }
  in.scale = model.scale();
  const ref::SdpaResults<double> out = ref::sdpa(in, 0);
  model.golden = {out.O.values, out.L.values, out.dQ.values, out.dK.values, out.dV.values};
  return model;
}

// The largest error of a head, of its largest entry.
template <class T>
double worst_of_heads(const std::vector<T>& out, const std::vector<double>& golden, index_t heads) {
  EXPECT_EQ(out.size(), golden.size());
  const std::size_t size = golden.size() / static_cast<std::size_t>(heads);
  double worst = 0;
  for (std::size_t first = 0; first < golden.size(); first += size) {
    double error = 0, largest = 0;
    for (std::size_t i = first; i < first + size; ++i) {
      const double difference = std::fabs(static_cast<double>(out[i]) - golden[i]);
      if (!(difference <= error)) error = std::isnan(difference) ? HUGE_VAL : difference;
      largest = std::max(largest, std::fabs(golden[i]));
    }
    worst = std::max(worst, error / largest);
  }
  return worst;
}

template <class T>
void check_all(Model<T> model, double allowed) {
  const index_t heads = model.shape.heads;
  const auto& golden = model.golden;
  double worst[std::tuple_size_v<decltype(model.golden)>] = {};
  for (const kernels::KernelTable<T>* table : tables_under_test<T>())
    for (const index_t M : {4000, 98304, 1000000}) {
      plan::SdpaRequest request;
      request.shape = model.shape;
      request.dtype = dtype_of<T>::value;
      request.M = M;
      request.tile = table->tile;
      const SdpaSet all = {true, true, true, false};
      plan::SdpaPlan forward, backward, rows;
      ASSERT_OK(make_plan_of(request, std::nullopt, &forward));
      ASSERT_OK(make_plan_of(request, all, &backward));
      ASSERT_OK(make_plan_of(request, SdpaSet{true, false, false, false}, &rows));
      backward.blocks.rows = rows.blocks.rows;

      std::vector<T> o(model.q.size()), lse(golden[1].size());
      schedules::SdpaForwardTask<T> task;
      task.shape = model.shape;
      task.in = {model.heads(&model.q), model.heads(&model.k), model.heads(&model.v)};
      task.scale = static_cast<T>(model.scale());
      task.o = model.heads(&o);
      task.lse = model.rows(&lse);
      task.blocks = forward.blocks.rows;
      task.kernels = table;
      task.threads = 2;
      ASSERT_OK(schedules::sdpa_forward(task));
      for (const bool one_pass : {false, true}) {
        std::vector<T> dq(o.size()), dk(o.size()), dv(o.size());
        schedules::SdpaBackwardTask<T> gradients;
        gradients.shape = task.shape;
        gradients.in = task.in;
        gradients.scale = task.scale;
        gradients.d_o = model.heads(&model.d_o);
        gradients.o = task.o;
        gradients.lse = task.lse;
        gradients.out = {model.heads(&dq), model.heads(&dk), model.heads(&dv)};
        gradients.blocks = backward.blocks;
        gradients.blocks.keys.one_pass = one_pass;
        gradients.kernels = table;
        gradients.threads = task.threads;
        ASSERT_OK(schedules::sdpa_backward(gradients));
        std::size_t i = 0;
        for (const std::vector<T>* out : {&o, &lse, &dq, &dk, &dv}) {
          SCOPED_TRACE("output " + std::to_string(i) + " " + name_of(table->tile.isa) +
                       " M=" + std::to_string(M) + (one_pass ? " in one pass" : ""));
          const double error = worst_of_heads(*out, golden[i], heads);
          EXPECT_LE(error, allowed);
          worst[i] = std::max(worst[i], error);
          ++i;
        }
      }
    }
  std::cout << heads << " heads, largest errors of O, LSE, dQ, dK, dV:";
  for (const double error : worst) std::cout << " " << error;
  std::cout << "\n";
}

TEST(SdpaModel, InF32) { check_all(two_heads<float>(), 2e-6); }
TEST(SdpaModel, InF64) { check_all(two_heads<double>(), 1e-14); }
TEST(SdpaModel, OtherHeadsInF32) { check_all(other_heads<float>(), 2e-6); }
TEST(SdpaModel, OtherHeadsInF64) { check_all(other_heads<double>(), 1e-14); }

}  // namespace
}  // namespace ioattn_test
