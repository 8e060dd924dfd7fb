#include "base/problem.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules/random_problem.hpp"

namespace ioattn {
namespace {

LayerProblem parsed(const std::string& text) {
  LayerProblem problem;
  std::string error;
  EXPECT_TRUE(parse_problem(text, &problem, &error)) << error;
  return problem;
}

std::string error_of(const std::string& text) {
  const LayerProblem before = {{1, 2, 3, 4, Tie::kv}, DType::f64, 5};
  LayerProblem problem = before;
  std::string error;
  EXPECT_FALSE(parse_problem(text, &problem, &error)) << text;
  EXPECT_TRUE(problem == before) << "a failure changed the problem: " << text;
  return error;
}

TEST(Problem, ReadsEveryField) {
  const LayerProblem tied = {{512, 512, 385, 32, Tie::kv}, DType::f32};
  EXPECT_EQ(parsed("layer:n512,m512,d385,v32,f32,tied"), tied);
  const LayerProblem batch = {{7, 9, 5, 3, Tie::none}, DType::f64, 4, 0.5};
  EXPECT_EQ(parsed("layer:b4,f64,s0.5,v3,d5,m9,n7"), batch);
  const LayerProblem self = {{8, 8, 5, 5, Tie::all}, DType::f32};
  EXPECT_EQ(parsed("layer:n8,d5,self"), self);
  const LayerProblem empty = {{0, 0, 0, 0, Tie::none}, DType::f32};
  EXPECT_EQ(parsed("layer:n0,d0"), empty);
}

TEST(Problem, PrintsInOneOrder) {
  EXPECT_EQ(to_text(parsed("layer:tied,v32,m512,n512,d385")), "layer:n512,m512,d385,v32,f32,tied");
  EXPECT_EQ(to_text(parsed("layer:b3,self,f64,d5,n8")), "layer:n8,m8,d5,v5,f64,self,b3");
}

TEST(Problem, SurvivesPrintingAndReading) {
  ioattn_test::RandomProblem random(1);
  for (int round = 0; round < 2000; ++round) {
    LayerProblem problem;
    problem.shape = random.shape(1 << 20, 1 << 12);
    if (round % 7 == 0) problem.shape.d = 0;
    problem.dtype = random.uniform(0, 1) == 0 ? DType::f32 : DType::f64;
    problem.batch = std::max<index_t>(1, random.uniform(-5, 20));
    const std::string text = to_text(problem);
    ASSERT_EQ(parsed(text), problem) << text;

    // In any order of fields.
    std::vector<std::string> fields;
    for (std::size_t at = text.find(':'); at != std::string::npos; at = text.find(',', at + 1))
      fields.push_back(text.substr(at + 1, text.find(',', at + 1) - at - 1));
    std::shuffle(fields.begin(), fields.end(), random.engine());
    std::string shuffled = "layer:";
    for (const std::string& field : fields) shuffled += (&field == &fields[0] ? "" : ",") + field;
    ASSERT_EQ(parsed(shuffled), problem) << shuffled;
  }
}

const std::string known =
    "; there are nN, mN, dN, vN, bN, sSCALE, f32, f64, bf16, f16, tied, self, causal, "
    "causal-bottom-right, keysFIRST:LAST";

TEST(Problem, SaysWhatIsWrong) {
  for (const char* text : {"", "layer", "sdpa:n1,d1", "n1,d1", "Layer:n1,d1"})
    EXPECT_EQ(error_of(text), "a problem begins with \"layer:\" or \"sdpa:\"");

  const struct {
    const char* field;
    const char* why;
  } bad[] = {
      {"n", "no digits"},         {"n5x", "trailing letters"},
      {"n-5", "negative"},        {"n+5", "sign"},
      {"n 5", "space"},           {"b", "no digits"},
      {"b-1", "negative"},        {"m9223372036854775808", "does not fit in 64 bits"},
      {"n5.0", "not an integer"}, {"v0x10", "hexadecimal"},
      {"keys3", "no band"},       {"sinf", "no scale"},
  };
  for (const auto& [field, why] : bad) {
    const std::string text = "layer:n4," + std::string(field) + ",d4";
    EXPECT_EQ(error_of(text),
              "the value of field \"" + std::string(field) + "\" is not valid in " + text + known)
        << why;
  }
  for (const char* field : {"x5", "f128", "TIED", "h2", "pad1", ""}) {
    const std::string text = "layer:n4," + std::string(field) + ",d4";
    EXPECT_EQ(error_of(text), "unknown field \"" + std::string(field) + "\" in " + text + known);
  }
  for (const std::string text : {"layer:", "layer:n4", "layer:d4", "layer:m4,v4,f64,tied,b2"})
    EXPECT_EQ(error_of(text), "n and d are required in " + text);
  for (const std::string text : {"layer:n4,m5,d4,self", "layer:self,m0,n1,d1"})
    EXPECT_EQ(error_of(text), "self needs n = m in " + text);
}

TEST(Problem, SaysAFieldOnce) {
  EXPECT_EQ(error_of("layer:n4,d4,n5"), "field \"n5\" repeats another in layer:n4,d4,n5");
  for (const char* text : {"layer:d4,n4,d4", "layer:n4,d4,m4,m5", "layer:n4,d4,v1,v1",
                           "layer:n4,d4,f32,f64", "layer:n4,d4,tied,self", "layer:b1,n4,d4,b2"})
    EXPECT_NE(error_of(text).find("repeats another"), std::string::npos) << text;
}

TEST(Problem, EndsWithAField) {
  EXPECT_EQ(error_of("layer:n4,d4,"), "unknown field \"\" in layer:n4,d4," + known);
}

TEST(Problem, TakesTheLargestSize) {
  EXPECT_EQ(parsed("layer:n9223372036854775807,d1").shape.n, 9223372036854775807);
}

}  // namespace
}  // namespace ioattn
