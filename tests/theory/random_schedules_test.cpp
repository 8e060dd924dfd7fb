// No algorithm of class F that was drawn at random falls below a bound of its class.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "theory/bounds.hpp"
#include "theory/core_bounds.hpp"
#include "theory/random_schedule.hpp"
#include "theory/sdpa_bounds.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using theory::BoundSet;

struct Closest {
  std::map<std::string, double> share;  // of the words moved that a bound explains
  int nontrivial = 0;                   // some bound exceeds the compulsory one

  void check(const BoundSet& bounds, const Moved& moved, const std::string& what) {
    const std::pair<const char*, double> named[] = {{"compulsory", bounds.compulsory},
                                                    {"a2", bounds.a2},
                                                    {"G3", bounds.g3},
                                                    {"b2", bounds.b2},
                                                    {"c", bounds.c},
                                                    {"b3", bounds.b3},
                                                    {"a3", bounds.a3}};
    const double words = double(moved.words());
    for (const auto& [name, bound] : named) {
      EXPECT_LE(bound, words) << name << " " << what;
      share[name] = std::max(share[name], bound / words);
    }
    if (std::max({bounds.a2, bounds.g3, bounds.b2, bounds.c, bounds.b3}) > bounds.compulsory)
      ++nontrivial;
  }
};

LayerShape small_shape(RandomSchedule* random) {
  LayerShape shape = {random->between(2, 30), random->between(2, 30), random->between(1, 5)};
  // Narrow ones, where products of pairs are most of what moves.
  if (random->below(3) == 0) {
    shape = {random->between(30, 60), random->between(30, 60), random->between(1, 3)};
  }
  shape.dv = random->below(2) == 0 ? shape.d : random->between(1, 9);
  if (random->below(4) == 0) shape.mask = causal_top_left();
  if (random->below(6) == 0) shape.mask = window(0, random->below(shape.m), random->below(4));
  return shape;
}
index_t small_memory(RandomSchedule* random, const LayerShape& shape) {
  const index_t most = std::min(9 * shape.d * shape.d + 10, (shape.n + shape.m) * shape.d);
  return random->between(4, std::max<index_t>(5, most));
}
std::string text_of(const LayerShape& shape, index_t M) {
  return "n=" + std::to_string(shape.n) + " m=" + std::to_string(shape.m) +
         " d=" + std::to_string(shape.d) + " dv=" + std::to_string(shape.dv) +
         " tie=" + name_of(shape.tie) + " " + mask_text(shape) + " M=" + std::to_string(M);
}

void check_layer(std::uint64_t seed, int runs) {
  RandomSchedule random(seed);
  for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
    Closest closest;
    for (int run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
      LayerShape shape = small_shape(&random);
      shape.tie = tie;
      if (tie == Tie::all) shape.m = shape.n;
      if (theory::pairs_of(shape) < 1) continue;
      const index_t M = small_memory(&random, shape);
      closest.check(theory::layer_bounds(Pass::backward, shape, M), random.layer(shape, M),
                    text_of(shape, M));
    }
    EXPECT_GT(closest.nontrivial, runs / 20) << name_of(tie);
    EXPECT_GT(closest.share["b2"], tie == Tie::none ? 0.45 : 0.3) << name_of(tie);
    EXPECT_GT(closest.share["b3"], 0.3) << name_of(tie);
  }
}

// Where the products of pairs are nearly all that moves.
void check_streams(std::uint64_t seed, int runs) {
  RandomSchedule random(seed);
  for (const Tie tie : {Tie::none, Tie::kv, Tie::all}) {
    Closest closest;
    for (int run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
      const index_t d = random.between(2, 4);
      LayerShape shape = {random.between(250, 350), random.between(250, 350), d, d, tie};
      if (tie == Tie::all) shape.m = shape.n;
      const index_t M = d * random.between(20, 36);
      closest.check(theory::layer_bounds(Pass::backward, shape, M), random.streamed_layer(shape, M),
                    text_of(shape, M));
    }
    EXPECT_GT(closest.share["b2"], 0.7) << name_of(tie);
    if (tie == Tie::none) {  // elsewhere M is too large for it
      EXPECT_GT(closest.share["b3"], 0.7);
    }
  }
}

void check_sdpa(std::uint64_t seed, int runs) {
  RandomSchedule random(seed);
  Closest forward, backward;
  for (int run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
    const LayerShape head = small_shape(&random);
    if (theory::pairs_of(head) < 1) continue;
    const index_t M = small_memory(&random, head);
    SdpaShape shape;
    shape.n = head.n, shape.m = head.m, shape.d = head.d, shape.dv = head.dv;
    shape.mask = head.mask;
    forward.check(theory::sdpa_forward_bounds(shape, M, false), random.sdpa_forward(head, M),
                  text_of(head, M));
    const index_t which = random.between(1, 7);
    const SdpaSet set = {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
    backward.check(theory::sdpa_backward_bounds(shape, set, M), random.sdpa_backward(head, set, M),
                   "set " + std::to_string(which) + " " + text_of(head, M));
  }
  for (Closest* closest : {&forward, &backward}) {
    EXPECT_GT(closest->nontrivial, runs / 20);
    EXPECT_GT(closest->share["b2"], 0.55);
    EXPECT_GT(closest->share["b3"], 0.55);
  }
}

// Passes over the keys where these are the values too.
void check_tied_cores(std::uint64_t seed, int runs) {
  RandomSchedule random(seed);
  Closest closest;
  for (int run = 0; run < runs && !testing::Test::HasFailure(); ++run) {
    LayerShape shape = small_shape(&random);
    if (theory::pairs_of(shape) < 1) continue;
    shape.dv = shape.d;
    shape.tie = Tie::kv;
    const index_t M = small_memory(&random, shape);
    const index_t which = random.between(1, 7);
    const SdpaSet set = {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
    theory::CoreProblem core;
    core.pairs = theory::pairs_of(shape);
    core.d = core.e = double(shape.d);
    core.tied = true;
    core.dQ = set.dQ, core.dK = set.dK, core.dV = set.dV;
    core.one_sum = set.dK && set.dV && random.below(2) == 0;
    closest.check(
        theory::core_bounds(core, M), random.sdpa_backward(shape, set, M, core.one_sum),
        "set " + std::to_string(which) + (core.one_sum ? " summed " : " ") + text_of(shape, M));
  }
  EXPECT_GT(closest.nontrivial, runs / 20);
  EXPECT_GT(closest.share["b2"], 0.4);
  EXPECT_GT(closest.share["G3"], 0.25);
  EXPECT_GT(closest.share["b3"], 0.4);
}

TEST(RandomSchedules, SomeOfTheLayerProblem) { check_layer(1, 300); }
TEST(RandomSchedules, SomeOfTheLayerProblemThatStream) { check_streams(5, 5); }
TEST(RandomSchedules, SomeOfSdpa) { check_sdpa(2, 400); }
TEST(RandomSchedules, SomeOfTiedCores) { check_tied_cores(9, 400); }
TEST(RandomSchedules, ManyOfTheLayerProblem1) { check_layer(3, 1250); }
TEST(RandomSchedules, ManyOfTheLayerProblem2) { check_layer(6, 1250); }
TEST(RandomSchedules, ManyOfTheLayerProblemThatStream) { check_streams(7, 15); }
TEST(RandomSchedules, ManyOfSdpa1) { check_sdpa(4, 1750); }
TEST(RandomSchedules, ManyOfSdpa2) { check_sdpa(8, 1750); }
TEST(RandomSchedules, ManyOfTiedCores) { check_tied_cores(10, 3000); }

}  // namespace
}  // namespace ioattn_test
