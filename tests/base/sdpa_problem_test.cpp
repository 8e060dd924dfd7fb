#include "base/sdpa.hpp"

#include <gtest/gtest.h>

#include "schedules/random_problem.hpp"

namespace ioattn {
namespace {

SdpaProblem parsed(const std::string& text) {
  SdpaProblem problem;
  std::string error;
  EXPECT_TRUE(parse_problem(text, &problem, &error)) << error;
  return problem;
}

std::string error_of(const std::string& text) {
  SdpaProblem problem = {{3, 4, 2, 5, 6, 7, 8, causal_top_left()}, DType::f64, 2};
  const SdpaProblem before = problem;
  std::string error;
  EXPECT_FALSE(parse_problem(text, &problem, &error)) << text;
  EXPECT_TRUE(problem == before) << "a failure changed the problem: " << text;
  return error;
}

TEST(SdpaProblem, ReadsEveryField) {
  const SdpaProblem problem = parsed("sdpa:b2,h8,kv2,n512,m500,d64,v32,f64,causal,s0.5");
  const SdpaShape shape = {2, 8, 2, 512, 500, 64, 32, causal_top_left()};
  EXPECT_TRUE(problem == (SdpaProblem{shape, DType::f64, 0.5}));
  EXPECT_EQ(problem.shape.group(), 4);
  EXPECT_EQ(to_text(problem), "sdpa:b2,h8,kv2,n512,m500,d64,v32,f64,causal,s0.5");
}

TEST(SdpaProblem, Defaults) {
  const SdpaProblem problem = parsed("sdpa:d64,n5,h3");
  EXPECT_TRUE(problem == (SdpaProblem{{1, 3, 3, 5, 5, 64, 64, {}}, DType::f32, 0}));
  EXPECT_EQ(scale_of(problem), 0.125);
  EXPECT_EQ(scale_of(parsed("sdpa:d64,n5,s-3")), -3);
  EXPECT_EQ(scale_of(parsed("sdpa:d0,n5")), 1);
}

// The sizes that a bottom-right mask depends on may follow it.
TEST(SdpaProblem, BottomRight) {
  EXPECT_TRUE(parsed("sdpa:causal-bottom-right,n5,d1,m7").shape.mask == causal_bottom_right(5, 7));
  EXPECT_EQ(to_text(parsed("sdpa:n5,d1,m7,keys*:2")),
            "sdpa:b1,h1,kv1,n5,m7,d1,v1,f32,causal-bottom-right");
}

TEST(SdpaProblem, TextsAreReadBack) {
  ioattn_test::RandomProblem random(3);
  for (int trial = 0; trial < 500; ++trial) {
    SdpaProblem problem;
    SdpaShape& shape = problem.shape;
    shape.batch = random.uniform(0, 3);
    shape.kv_heads = random.uniform(1, 3);
    shape.heads = shape.kv_heads * random.uniform(0, 3);
    for (index_t SdpaShape::*size : {&SdpaShape::n, &SdpaShape::m, &SdpaShape::d, &SdpaShape::dv})
      shape.*size = random.logarithmic(1, 1000);
    if (trial % 2 == 0) shape.mask = random.mask(shape.n, shape.m);
    problem.dtype = static_cast<DType>(trial % 4);
    if (trial % 5 == 0) problem.scale = 1.0 / double(random.uniform(1, 99));
    EXPECT_TRUE(parsed(to_text(problem)) == problem) << to_text(problem);
  }
}

TEST(SdpaProblem, Refuses) {
  EXPECT_EQ(error_of("layer:n4,d4"), "an SDPA problem begins with \"sdpa:\"");
  const std::string known =
      "; there are bN, hN, kvN, nN, mN, dN, vN, sSCALE, f32, f64, bf16, f16, biasBxH, causal, "
      "causal-bottom-right, keysFIRST:LAST";
  for (const char* field : {"n", "kv", "kv-1", "h+2", "s0", "sinf", "keys3", "bias2"}) {
    const std::string text = "sdpa:m4," + std::string(field) + ",d4";
    EXPECT_EQ(error_of(text),
              "the value of field \"" + std::string(field) + "\" is not valid in " + text + known);
  }
  for (const char* field : {"x3", "", "f8", "tied"}) {
    const std::string text = "sdpa:m4," + std::string(field) + ",d4";
    EXPECT_EQ(error_of(text), "unknown field \"" + std::string(field) + "\" in " + text + known);
  }
  for (const std::string text : {"sdpa:", "sdpa:n4", "sdpa:d4,b2"})
    EXPECT_EQ(error_of(text), "n and d are required in " + text);
  for (const std::string text : {"sdpa:n4,d4,h3,kv2", "sdpa:n4,d4,h3,kv0"})
    EXPECT_EQ(error_of(text), "h is no multiple of kv in " + text);
  for (const char* text : {"sdpa:n4,n4,d4", "sdpa:n4,d4,kv1,kv1", "sdpa:n4,d4,causal,keys0:0"})
    EXPECT_NE(error_of(text).find("repeats another"), std::string::npos) << text;
}

}  // namespace
}  // namespace ioattn
