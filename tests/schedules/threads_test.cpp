// Results are the same bits for every number of threads, on every instruction set of this CPU.

#include <gtest/gtest.h>

#include <cstring>

#include "plan/blocks/blocking.hpp"
#include "schedules/layer_data.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class T>
std::vector<T> outputs(Pass pass, LayerData<T>* data) {
  const MatrixView<T> view = pass == Pass::forward ? data->o() : data->dx();
  std::vector<T> all;
  for (index_t i = 0; i < view.rows; ++i)
    all.insert(all.end(), view.row(i), view.row(i) + view.cols);
  if (pass == Pass::forward) all.insert(all.end(), data->lse(), data->lse() + view.rows);
  return all;
}

// O and LSE, which backward passes take.
template <class T>
void make_forward_results(const LayerShape& shape, LayerData<T>* data) {
  Blocks blocks;
  ASSERT_TRUE(plan::choose_blocks({Pass::forward, Schedule::row_stream, Form::g}, false, shape,
                                  100000, odd_tile<T>().tile, &blocks));
  ASSERT_OK(run_pass(Pass::forward, Schedule::row_stream, shape, blocks, odd_tile<T>(), 1, nullptr,
                     data));
}

// Passes over the keys are no passes of their own: col_stream_test has theirs.
std::vector<Variant> every_third_variant(int round) {
  std::vector<Variant> list;
  int position = round;
  for (const Variant& v : variants()) {
    if (v.pass == Pass::backward_keys) continue;
    if (position++ % 3 == 0) list.push_back(v);
  }
  return list;
}

template <class T>
class Threads : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Threads, Types);

TYPED_TEST(Threads, DoNotChangeABit) {
  using T = TypeParam;
  RandomProblem random(7);
  const auto tables = tables_under_test<T>();

  int split_further = 0;
  for (int round = 0; round < 60; ++round) {
    LayerShape shape = random.shape(round % 3 == 0 ? 600 : 200, 40);
    if (round % 2 == 1) shape.mask = random.mask(shape.n, shape.m);
    const kernels::KernelTable<T>& table =
        *tables[static_cast<std::size_t>(round / 3) % tables.size()];
    LayerData<T> data(shape, round % 3, random.engine());
    std::vector<T> expected;
    make_forward_results(shape, &data);
    const std::array<int, 3> some = some_thread_counts(round / 2);
    for (const Variant& v : every_third_variant(round)) {
      if (shape.mask.hides() && !takes_masks(v.schedule)) continue;
      const index_t M = plan::least_fast_memory(v, shape) * random.logarithmic(1, 4000);
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, table.tile, &blocks));
      if (uses(v, "rho") && blocks.r >= shape.n && blocks.rho < shape.n) ++split_further;
      for (const int threads : {1, some[0], some[1], some[2]}) {
        data.poison_outputs(v.pass);
        ASSERT_OK(run_pass(v.pass, v.schedule, shape, blocks, table, threads, nullptr, &data));
        const std::vector<T> got = outputs(v.pass, &data);
        if (threads == 1) {
          expected = got;
          for (T value : got) ASSERT_FALSE(std::isnan(value)) << to_text(v);
        }
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
            << name_of(v.pass) << " " << to_text(v) << " "
            << to_text(LayerProblem{shape, dtype_of<T>::value}) << " threads=" << threads
            << " r=" << blocks.r << " c=" << blocks.c << " rho=" << blocks.rho;
      }
    }
  }
  // Some plans have a single row block, which several threads must split.
  EXPECT_GT(split_further, 3);
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
  for (int round = 0; round < 40; ++round) {
    const LayerShape shape = random.shape(120, 30);
    LayerData<T> data(shape, 0, random.engine());
    make_forward_results(shape, &data);
    for (const Variant& v : every_third_variant(round)) {
      const index_t M = plan::least_fast_memory(v, shape) * random.logarithmic(1, 30);
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, odd_tile<T>().tile, &blocks));
      const auto run = [&](Observer* observer) {
        return run_pass(v.pass, v.schedule, shape, blocks, odd_tile<T>(), 2, observer, &data);
      };
      ASSERT_OK(run(nullptr));
      const std::vector<T> plain = outputs(v.pass, &data);
      Silent observer;
      ASSERT_OK(run(&observer));
      EXPECT_GT(observer.events, 0);
      const std::vector<T> observed = outputs(v.pass, &data);
      ASSERT_EQ(std::memcmp(plain.data(), observed.data(), plain.size() * sizeof(T)), 0)
          << name_of(v.pass) << " " << to_text(v);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
