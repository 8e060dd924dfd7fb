// Of the largest problems that are taken every figure fits in 64 bits: blocks are chosen, and
// words, multiply-adds, workspaces and bounds told, for every schedule. UndefinedBehaviorSanitizer
// sees what wraps, other builds what becomes negative.

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "api/checks/validate.hpp"
#include "api/plans/layer_plan.hpp"
#include "api/plans/sdpa_plan.hpp"
#include "theory/random_shapes.hpp"

namespace ioattn::api {
namespace {

using ioattn_test::Random;
using Json = nlohmann::json;

// make(sizes) in random proportions, as large as is valid: sizes of at most 2^40.
template <std::size_t count, class Make>
auto largest(Random* random, const Make& make) {
  std::array<double, count> proportions;
  for (double& one : proportions) one = double(random->below(11)) / 10;
  proportions[std::size_t(random->below(count))] = 1;
  const auto of = [&](double exponent) {
    std::array<index_t, count> sizes;
    for (std::size_t k = 0; k < count; ++k)
      sizes[k] = index_t(std::exp2(std::min(40.0, proportions[k] * exponent)));
    return make(sizes);
  };
  double valid = 0, invalid = 64;
  while (invalid - valid > 0.01) {
    const double middle = (valid + invalid) / 2;
    (validate_problem(of(middle)).is_ok() ? valid : invalid) = middle;
  }
  return of(valid);
}

void expect_no_negative_number(const Json& json, const std::string& key) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_structured()) {
      expect_no_negative_number(value, name);
    } else if (value.is_number()) {
      EXPECT_GE(value.get<double>(), 0) << key << "." << name;
    }
  }
}

// Whether there is such a plan.
template <class Plan>
bool check_plan(const typename Plan::Goal& goal, const RunOptions& options) {
  Plan plan;
  if (!Plan::create(goal, options, &plan).is_ok()) return false;
  SCOPED_TRACE(to_text(goal.problem) + ": " + plan.text());
  EXPECT_GE(plan.workspace_bytes(), 0);
  expect_no_negative_number(Json::parse(plan.describe()), "");
  return true;
}

// Some of them, about as often as none.
Mask some_mask(Random* random, index_t n, index_t m) {
  switch (random->below(6)) {
    case 0: return causal_top_left();
    case 1: return causal_bottom_right(n, m);
    case 2: return window(m - n, 1 + random->below(m), random->below(m));
    default: return {};
  }
}

RunOptions options_with(index_t M) {
  RunOptions options;
  options.M = M;
  options.memory_limit_bytes = std::numeric_limits<index_t>::max();
  return options;
}
constexpr index_t fast_memories[] = {0, 60, 4096, index_t(1) << 34};
constexpr DType dtypes[] = {DType::f32, DType::f64, DType::bf16};

TEST(LargestSizes, OfTheLayerProblem) {
  Random random(11);
  int plans = 0;
  for (int i = 0; i < 200; ++i) {
    LayerProblem problem = largest<5>(&random, [](const std::array<index_t, 5>& s) {
      return LayerProblem{{s[0], s[1], s[2], s[3]}, DType::f32, s[4]};
    });
    problem.dtype = dtypes[i % 3];
    problem.shape.mask = some_mask(&random, problem.shape.n, problem.shape.m);
    if (random.coin()) problem.shape.tie = Tie::kv;
    GradientSet all;
    all.dX = all.dY = all.dA1 = all.dA2 = all.dA3 = true;
    all.dW_Q = validate_weights(problem.shape.d, problem.shape.d).is_ok();
    all.dk = all.dW_Q ? problem.shape.d : 0;
    GradientSet dx;
    dx.dX = true;
    for (const index_t M : fast_memories) {
      RunOptions options = options_with(M);
      plans += check_plan<LayerPlan>({Pass::backward, problem, all}, options) ? 1 : 0;
      for (int schedule = 0; schedule < schedule_count; ++schedule) {
        options.schedule = static_cast<Schedule>(schedule);
        plans += check_plan<LayerPlan>({Pass::forward, problem, {}}, options) ? 1 : 0;
        plans += check_plan<LayerPlan>({Pass::backward, problem, dx}, options) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(plans, 500);
}

TEST(LargestSizes, OfSdpa) {
  Random random(12);
  int plans = 0;
  for (int i = 0; i < 300; ++i) {
    SdpaProblem problem = largest<6>(&random, [](const std::array<index_t, 6>& s) {
      SdpaProblem made;
      made.shape.batch = s[0];
      made.shape.heads = made.shape.kv_heads = s[1];
      made.shape.n = s[2];
      made.shape.m = s[3];
      made.shape.d = s[4];
      made.shape.dv = s[5];
      return made;
    });
    problem.dtype = dtypes[i % 3];
    problem.shape.mask = some_mask(&random, problem.shape.n, problem.shape.m);
    SdpaSet all;
    all.dQ = all.dK = all.dV = true;
    for (const index_t M : fast_memories) {
      plans += check_plan<SdpaPlan>({Pass::forward, problem, {}}, options_with(M)) ? 1 : 0;
      plans += check_plan<SdpaPlan>({Pass::backward, problem, all}, options_with(M)) ? 1 : 0;
    }
  }
  EXPECT_GT(plans, 300);
}

}  // namespace
}  // namespace ioattn::api
