// The memory that passes of SDPA take beside their outputs, against what the header says, as
// sequences grow.

#include <nlohmann/json.hpp>

#include "api/array_types.hpp"
#include "api/options.hpp"
#include "api/plan_call.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

struct Case {
  ioattn_dtype dtype;
  bool in_f32, bias;
};

constexpr std::int64_t heads = 4, d = 64;

struct Sizes {
  std::int64_t batch, n, m;
};

ioattn_sdpa_problem problem_of(const Case& c, const Sizes& sizes) {
  ioattn_sdpa_problem p = {};
  p.struct_size = sizeof p;
  p.batch = sizes.batch;
  p.heads = p.kv_heads = heads;
  p.n = sizes.n;
  p.m = sizes.m;
  p.d = p.dv = d;
  p.dtype = c.dtype;
  if (c.bias) {
    static const char bias = 0;  // no plan reads it
    p.bias = &bias;
    p.bias_batch = p.bias_heads = 1;
  }
  return p;
}

ioattn_sdpa_gradients all_gradients(const Case& c) {
  static char wanted;
  ioattn_sdpa_gradients g = {};
  g.struct_size = sizeof g;
  g.dq = g.dk = g.dv = &wanted;
  g.dbias = c.bias ? &wanted : nullptr;
  g.in_f32 = c.in_f32;
  return g;
}

std::int64_t workspace_of(const Plan& plan) {
  std::size_t bytes = 0;
  EXPECT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
  return static_cast<std::int64_t>(bytes);
}

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << "batch " << s.batch << " n " << s.n << " m " << s.m;
}

constexpr std::int64_t few = 4096, many = 65536;
constexpr Sizes least = {1, few, few};
constexpr Sizes larger[] = {{1, many, many}, {1, many, few},  {1, few, many},
                            {16, few, few},  {16, many, few}, {7, few, many}};

// Threads share the rows of sequences of some lengths by blocks that are up to twice as long as
// those of others.
TEST(SdpaScratch, ForwardIsThatOfShortSequences) {
  for (const ioattn_dtype dtype : {IOATTN_F32, IOATTN_F64, IOATTN_BF16, IOATTN_F16})
    for (const bool bias : {false, true}) {
      SCOPED_TRACE(dtype);
      const Case c = {dtype, false, bias};
      const Plan short_plan = create(IOATTN_FORWARD, problem_of(c, least), nullptr);
      for (const Sizes& sizes : larger) {
        const Plan long_plan = create(IOATTN_FORWARD, problem_of(c, sizes), nullptr);
        EXPECT_LE(workspace_of(long_plan), 2 * workspace_of(short_plan)) << sizes;
      }
    }
}

TEST(SdpaScratch, BackwardGrowsByWhatTheHeaderSays) {
  for (const Case& c : {Case{IOATTN_F32, false, false}, Case{IOATTN_F32, false, true},
                        Case{IOATTN_F64, false, true}, Case{IOATTN_BF16, false, false},
                        Case{IOATTN_BF16, true, true}, Case{IOATTN_BF16, false, true},
                        Case{IOATTN_F16, false, false}, Case{IOATTN_F16, false, true}}) {
    SCOPED_TRACE(testing::Message() << c.dtype << " in_f32 " << c.in_f32 << " bias " << c.bias);
    const ioattn_sdpa_gradients gradients = all_gradients(c);
    const Plan short_plan = create(IOATTN_BACKWARD, problem_of(c, least), nullptr, &gradients);
    for (const Sizes& sizes : larger) {
      const Plan long_plan = create(IOATTN_BACKWARD, problem_of(c, sizes), nullptr, &gradients);
      const Json json = Json::parse(text_of(ioattn_plan_describe, long_plan));
      const bool half = c.dtype == IOATTN_BF16 || c.dtype == IOATTN_F16;
      const std::int64_t word = c.dtype == IOATTN_F64 ? 8 : 4;
      const std::int64_t queries = heads * (sizes.batch * sizes.n - least.n);
      std::int64_t most = word * queries;                 // delta
      if (half && !c.in_f32) most += word * queries * d;  // sums of dQ
      if (half && !c.in_f32 && c.bias) {
        const std::int64_t threads = json["threads"];
        most += word * threads * (sizes.m - least.m) * 2 * d;  // sums of dBias
      }
      EXPECT_LE(workspace_of(long_plan), most + 2 * workspace_of(short_plan))
          << sizes << ": " << json.dump();
    }
  }
}

// Those of heads that are not in work are no part of what is stored, nor of the workspace.
TEST(SdpaScratch, IsStoredOfTheHeadsInWork) {
  const ioattn_options options = with_threads(1);
  for (const ioattn_dtype dtype : {IOATTN_F32, IOATTN_BF16}) {
    SCOPED_TRACE(dtype);
    const ioattn_sdpa_problem p = problem_of({dtype, false, false}, {16, 1024, 1024});
    const ioattn_sdpa_gradients gradients = all_gradients({dtype, false, false});
    const Plan plan = create(IOATTN_BACKWARD, p, &options, &gradients);
    const Json json = Json::parse(text_of(ioattn_plan_describe, plan));
    ASSERT_EQ(json["stored"].size(), dtype == IOATTN_BF16 ? 2u : 1u);
    const int word = dtype == IOATTN_BF16 ? 2 : 4;
    std::int64_t bytes = 0;
    for (const Json& item : json["stored"]) {
      EXPECT_EQ(item["shape"][0], 1) << item.dump();
      bytes += item["words"].get<std::int64_t>() * word;
    }
    EXPECT_LE(bytes, workspace_of(plan));
  }
}

}  // namespace
}  // namespace ioattn_test
