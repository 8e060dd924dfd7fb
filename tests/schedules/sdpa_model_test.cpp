// Attention heads of a real model (tests/data/sdpa): O, LSE and all gradients of every head within
// 2e-6 (f32) and 1e-14 (f64) of the largest entry of the float64 results, on every instruction set
// of this CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "data_path.hpp"
#include "plan/sdpa_planner.hpp"
#include "schedules/sdpa.hpp"
#include "schedules/tables.hpp"
#include "tune/npy.hpp"

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

template <class T>
struct Model {
  Model() {
    q = read<T>("Q", &shape.heads, &shape);
    shape.kv_heads = shape.heads;
  }
  TensorView<T> heads(std::vector<T>* values) const {
    return dense_tensor(values->data(), 1, shape.heads, shape.n, shape.d);
  }
  TensorView<T> rows(std::vector<T>* values) const {
    return dense_tensor(values->data(), 1, shape.heads, 1, shape.n);
  }

  SdpaShape shape;
  std::vector<T> q, k = read<T>("K"), v = read<T>("V"), d_o = read<T>("dO");
};

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
void check_all(double allowed) {
  Model<T> model;
  const index_t heads = model.shape.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(model.shape.d));
  const std::vector<double> golden[] = {read<double>("golden_O"), read<double>("golden_LSE"),
                                        read<double>("golden_dQ"), read<double>("golden_dK"),
                                        read<double>("golden_dV")};
  double worst[std::size(golden)] = {};
  for (const kernels::KernelTable<T>* table : tables_under_test<T>())
    for (const index_t M : {4000, 98304, 1000000}) {
      plan::SdpaRequest request;
      request.shape = model.shape;
      request.dtype = dtype_of<T>::value;
      request.M = M;
      request.tile = table->tile;
      const SdpaSet all = {true, true, true, false};
      plan::SdpaPlan forward, backward, rows;
      ASSERT_TRUE(make_sdpa_plan(request, &forward).is_ok());
      ASSERT_TRUE(make_sdpa_plan(request, all, &backward).is_ok());
      ASSERT_TRUE(make_sdpa_plan(request, {true, false, false, false}, &rows).is_ok());
      backward.blocks.rows = rows.blocks.rows;

      std::vector<T> o(model.q.size()), lse(golden[1].size());
      schedules::SdpaForwardTask<T> task;
      task.shape = model.shape;
      task.in = {model.heads(&model.q), model.heads(&model.k), model.heads(&model.v)};
      task.scale = static_cast<T>(scale);
      task.o = model.heads(&o);
      task.lse = model.rows(&lse);
      task.blocks = forward.blocks.rows;
      task.kernels = table;
      task.threads = 2;
      ASSERT_TRUE(schedules::sdpa_forward(task).is_ok());
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
        ASSERT_TRUE(schedules::sdpa_backward(gradients).is_ok());
        std::size_t i = 0;
        for (const std::vector<T>* out : {&o, &lse, &dq, &dk, &dv}) {
          const double error = worst_of_heads(*out, golden[i], heads);
          EXPECT_LE(error, allowed) << "output " << i << " " << name_of(table->tile.isa)
                                    << " M=" << M << (one_pass ? " in one pass" : "");
          worst[i] = std::max(worst[i], error);
          ++i;
        }
      }
    }
  std::cout << heads << " heads, largest errors of O, LSE, dQ, dK, dV:";
  for (const double error : worst) std::cout << " " << error;
  std::cout << "\n";
}

TEST(SdpaModel, InF32) { check_all<float>(2e-6); }
TEST(SdpaModel, InF64) { check_all<double>(1e-14); }

}  // namespace
}  // namespace ioattn_test
