// fork() after threads were used: OpenMP runtimes keep a pool of threads, of which a child has
// none.

#include <atomic>
#include <thread>

#include "api/child.hpp"
#include "api/layer_call.hpp"
#include "api/run/layer.hpp"
#include "reference/sanitizer.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

// dX with as many threads as asked, however few CPUs there are.
std::vector<float> gradient(int threads) {
  LayerCall<float> call({200, 60, 16, 16, Ties::none}, 0);
  const ioattn_layer_problem& p = call.problem;
  const MatrixView<const float> a1 = {call.a1.data(), p.n, p.d, p.d};
  const MatrixView<const float> a2 = {call.a2.data(), p.m, p.d, p.d};
  const MatrixView<const float> a3 = {call.a3.data(), p.m, p.d, p.d};
  const LayerInputs<float> inputs = {
      a1, a2, a3, {call.x.data(), p.d, p.d, p.d}, {call.y.data(), p.d, p.dv, p.dv}};
  plan::Plan plan;
  std::string error;
  EXPECT_TRUE(plan::parse_plan(
      "M:row_stream(form=g,r=32,c=16,rho=16,w=16,o=16,a=16,b=16) > reg:scalar(4x4)", &plan,
      &error));
  EXPECT_OK(api::layer_forward<float>(inputs, plan, {threads}, {call.o.data(), p.n, p.dv, p.dv},
                                      call.lse.data()));
  EXPECT_OK(api::layer_backward<float>(inputs, {call.d_o.data(), p.n, p.dv, p.dv},
                                       {call.o.data(), p.n, p.dv, p.dv}, call.lse.data(), plan,
                                       {threads}, {call.dx.data(), p.d, p.d, p.d}));
  return call.dx.dense();
}

std::vector<float> expected() {
  static const std::vector<float> dx = gradient(1);
  return dx;
}

bool is_right(int threads) { return same_bits(gradient(threads), expected()); }

// Its threads are those of the same runtime. Run by itself, too: then the child's is the first
// call.
TEST(Fork, AfterARegionOfTheCallers) {
  std::atomic<int> workers{0};
#pragma omp parallel num_threads(2)
  ++workers;
  EXPECT_EQ(workers, 2);
  expect_child_succeeds([] { return is_right(2); });
}

TEST(Fork, BeforeAnyThread) {
  expect_child_succeeds([] { return is_right(2); });
}

TEST(Fork, ChildWithOneThread) {
  EXPECT_TRUE(is_right(2));
  expect_child_succeeds([] { return is_right(1); });
}

TEST(Fork, ChildWithThreads) {
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(is_right(3));
    expect_child_succeeds([=] {
      const bool first = is_right(threads);
      return is_right(threads) && first;
    });
    EXPECT_TRUE(is_right(3)) << "in the parent, after a fork";
  }
}

TEST(Fork, Grandchild) {
  EXPECT_TRUE(is_right(2));
  expect_child_succeeds([] {
    if (!is_right(2)) return false;
    expect_child_succeeds([] { return is_right(2); });
    return is_right(2);
  });
}

TEST(Fork, FromAnotherThread) {
  EXPECT_TRUE(is_right(2));
  std::thread([] {
    expect_child_succeeds([] { return is_right(2); });
    EXPECT_TRUE(is_right(2));
    expect_child_succeeds([] { return is_right(2); });
  }).join();
  EXPECT_TRUE(is_right(2));
}

// The pool that ends before a fork is that of the thread that forks.
TEST(Fork, WhileAnotherThreadComputes) {
  if (IOATTN_SANITIZER_OWNS_MALLOC) GTEST_SKIP() << "the sanitizer's allocator takes no such fork";
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, rounds{0};
  const std::vector<float> right = expected();
  std::thread computing([&] {
    while (!done) {
      if (!same_bits(gradient(2), right)) ++wrong;
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  for (int i = 0; i < 10 && !testing::Test::HasFailure(); ++i)
    expect_child_succeeds([] { return is_right(2); });
  done = true;
  computing.join();
  EXPECT_EQ(wrong, 0);
}

// Whoever changes wisdom holds a lock, which a child that was forked meanwhile takes over.
TEST(Fork, WhileAnotherThreadChangesWisdom) {
  if (IOATTN_SANITIZER_OWNS_MALLOC) GTEST_SKIP() << "the sanitizer's allocator takes no such fork";
  std::atomic<bool> done{false};
  std::thread changing([&] {
    while (!done) EXPECT_EQ(ioattn_wisdom_forget(), IOATTN_OK);
  });
  for (int i = 0; i < 50 && !testing::Test::HasFailure(); ++i) {
    expect_child_succeeds([] {
      size_t needed = 0;
      return ioattn_wisdom_export_text(nullptr, 0, &needed) == IOATTN_OK && needed > 0 &&
             ioattn_wisdom_forget() == IOATTN_OK;
    });
  }
  done = true;
  changing.join();
}

}  // namespace
}  // namespace ioattn_test
