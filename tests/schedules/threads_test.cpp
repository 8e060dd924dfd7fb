// Results are the same bits for every number of threads, on every instruction set of this CPU.

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "plan/blocking.hpp"
#include "schedules/layer_data.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "theory/io_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class T>
std::vector<T> outputs(LayerData<T>* data) {
  std::vector<T> all;
  for (const MatrixView<T>& view : {data->o(), data->dx()})
    for (index_t i = 0; i < view.rows; ++i)
      all.insert(all.end(), view.row(i), view.row(i) + view.cols);
  all.insert(all.end(), data->lse(), data->lse() + data->o().rows);
  return all;
}

template <class T>
class Threads : public testing::Test {
 protected:
  Threads() {
    for (const Variant& v : variants()) {
      if (v.pass == Pass::backward) backward_.push_back(v);
    }
  }

  std::vector<Variant> backward_;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Threads, Types);

TYPED_TEST(Threads, DoNotChangeABit) {
  using T = TypeParam;
  RandomProblem random(7);
  std::vector<const kernels::KernelTable<T>*> tables = {&odd_tile<T>()};
  for (const kernels::Kernels* kernels : kernels::all_kernels())
    if (machine::this_machine().isa.has(kernels->isa)) tables.push_back(&kernels->table<T>());

  int split_further = 0;
  for (int round = 0; round < 20; ++round) {
    for (const Variant& v : this->backward_) {
      const LayerShape shape = random.shape(round % 3 == 0 ? 600 : 200, 40);
      const kernels::KernelTable<T>& table =
          *tables[static_cast<std::size_t>(round) % tables.size()];
      const Variant forward_variant = {Pass::forward, Schedule::row_stream, v.form, v.products};
      const index_t least = std::max(plan::least_fast_memory(v, shape),
                                     plan::least_fast_memory(forward_variant, shape));
      const index_t M = least * random.logarithmic(1, 4000);
      Blocks forward, backward;
      ASSERT_TRUE(plan::choose_blocks(forward_variant, false, shape, M, table.tile, &forward));
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, table.tile, &backward));
      if (uses(v, "rho") && backward.r >= shape.n && backward.rho < shape.n) ++split_further;
      LayerData<T> data(shape, round % 3, random.engine());
      std::vector<T> expected;
      for (int threads : {1, 2, 3, 5}) {
        data.poison_outputs();
        ASSERT_TRUE(run_pass(Pass::forward, Schedule::row_stream, shape, forward, table, threads,
                             nullptr, &data)
                        .is_ok());
        ASSERT_TRUE(
            run_pass(v.pass, v.schedule, shape, backward, table, threads, nullptr, &data).is_ok());
        const std::vector<T> got = outputs(&data);
        if (threads == 1) {
          expected = got;
          for (T value : got) ASSERT_FALSE(std::isnan(value));
        }
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
            << to_text(v) << " " << to_text(LayerProblem{shape, dtype_of<T>::value, 0})
            << " threads=" << threads << " r=" << backward.r << " rho=" << backward.rho;
      }
    }
  }
  // Some plans have a single row block, which several threads must split.
  EXPECT_GT(split_further, 10);
}

TYPED_TEST(Threads, NoVariantDependsOnThem) {
  using T = TypeParam;
  RandomProblem random(9);
  for (int round = 0; round < 12; ++round) {
    const LayerShape shape = random.shape(90, 20);
    LayerData<T> data(shape, round % 3, random.engine());
    Blocks forward;
    ASSERT_TRUE(plan::choose_blocks({Pass::forward, Schedule::row_stream}, false, shape, 100000,
                                    odd_tile<T>().tile, &forward));
    for (const Variant& v : variants()) {
      const index_t M = plan::least_fast_memory(v, shape) * random.logarithmic(1, 300);
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, odd_tile<T>().tile, &blocks));
      std::vector<T> expected;
      for (int threads : {1, 2, 5}) {
        data.poison_outputs();
        ASSERT_TRUE(run_pass(Pass::forward, Schedule::row_stream, shape, forward, odd_tile<T>(), 1,
                             nullptr, &data)
                        .is_ok());
        ASSERT_TRUE(
            run_pass(v.pass, v.schedule, shape, blocks, odd_tile<T>(), threads, nullptr, &data)
                .is_ok());
        const std::vector<T> got = outputs(&data);
        if (threads == 1) expected = got;
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
            << name_of(v.pass) << " " << to_text(v) << " "
            << to_text(LayerProblem{shape, dtype_of<T>::value, 0}) << " M=" << M
            << " threads=" << threads;
      }
    }
  }
}

// An observer changes nothing either.
TYPED_TEST(Threads, CountingRunGivesTheSameBits) {
  using T = TypeParam;
  struct Silent final : Observer {
    void phase(const char*) override {}
    void read(const Block&) override { ++events; }
    void create(const Block&) override { ++events; }
    void write(const Block&) override { ++events; }
    void remove(const Block&) override { ++events; }
    long events = 0;
  };
  RandomProblem random(8);
  for (int round = 0; round < 12; ++round) {
    const LayerShape shape = random.shape(90, 20);
    for (const Variant& v : variants()) {
      const index_t M = plan::least_fast_memory(v, shape) * random.logarithmic(1, 30);
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, odd_tile<T>().tile, &blocks));
      LayerData<T> data(shape, 0, random.engine());
      Blocks forward;
      ASSERT_TRUE(plan::choose_blocks({Pass::forward, Schedule::row_stream, Form::g}, false, shape,
                                      100000, odd_tile<T>().tile, &forward));
      ASSERT_TRUE(run_pass(Pass::forward, Schedule::row_stream, shape, forward, odd_tile<T>(), 1,
                           nullptr, &data)
                      .is_ok());
      ASSERT_TRUE(
          run_pass(v.pass, v.schedule, shape, blocks, odd_tile<T>(), 2, nullptr, &data).is_ok());
      const std::vector<T> plain = outputs(&data);
      Silent observer;
      ASSERT_TRUE(
          run_pass(v.pass, v.schedule, shape, blocks, odd_tile<T>(), 2, &observer, &data).is_ok());
      EXPECT_GT(observer.events, 0);
      const std::vector<T> observed = outputs(&data);
      ASSERT_EQ(std::memcmp(plain.data(), observed.data(), plain.size() * sizeof(T)), 0)
          << name_of(v.pass) << " " << to_text(v);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
