// SDPA has the same bits for every number of threads, and a head those that it has alone, wherever
// in a batch it is: as planned for little and for much fast memory, in one pass and in two.

#include <cstring>

#include "plan/sdpa_planner.hpp"
#include "schedules/sdpa_case.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

struct Case {
  const char* problem;
  // One whose masks are not named.
  Mask band = {};
};
const Case cases[] = {
    {"sdpa:n150,m130,d12,v9"},                       // one head: its rows are shared out
    {"sdpa:n150,m130,d12,v9,causal"},                //
    {"sdpa:n3,m200,d8"},                             // fewer rows than threads
    {"sdpa:n200,m3,d8,causal"},                      // fewer keys than threads
    {"sdpa:b3,h3,kv3,n40,m55,d10,v6"},               // heads that no number of threads divides
    {"sdpa:b2,h6,kv2,n35,m50,d9,v12,causal"},        // groups
    {"sdpa:h5,kv1,n60,m45,d7,v7"},                   // one group
    {"sdpa:b1,h8,kv8,n33,m20,d5,v5,causal"},         //
    {"sdpa:b5,h4,kv2,n17,m19,d6,v4", Mask{-3, 9}},   //
    {"sdpa:h2,kv2,n70,m90,d20,v20", Mask{40, 200}},  // queries that see nothing
    // Rows of O and V that kernels take where they lie, but for heads whose rows lie apart.
    {"sdpa:h2,kv1,n70,m60,d8,v32,causal"},  // rows of heads
    {"sdpa:h2,kv1,n40,m50,d6,v20"},         // gaps between rows, panels of the odd tile
};

SdpaShape shape_of(const Case& c) {
  SdpaProblem problem;
  std::string error;
  EXPECT_TRUE(parse_problem(c.problem, &problem, &error)) << error;
  if (c.band.hides()) problem.shape.mask = c.band;
  return problem.shape;
}

// How a problem is computed.
struct Plans {
  Blocks forward;
  SdpaBlocks backward;
};

template <class T>
std::vector<Plans> plans_for(const SdpaShape& shape, const TileShape& tile) {
  std::vector<Plans> all;
  for (const index_t M : {900, 6000, 200000}) {
    plan::SdpaRequest request;
    request.shape = shape;
    request.dtype = dtype_of<T>::value;
    request.M = M;
    request.tile = tile;
    const auto planned = [&](const SdpaSet& set) {
      plan::SdpaPlan plan;
      const Status status = make_sdpa_plan(request, set, &plan);
      EXPECT_TRUE(status.is_ok()) << status.message();
      return plan.blocks;
    };
    plan::SdpaPlan forward;
    EXPECT_TRUE(make_sdpa_plan(request, &forward).is_ok());
    const SdpaBlocks two = {planned({true, false, false, false}).rows,
                            planned({false, true, true, false}).keys};
    SdpaBlocks one = two;
    one.keys.one_pass = true;
    all.push_back({forward.blocks.rows, two});
    all.push_back({forward.blocks.rows, one});
  }
  // Blocks of as many shares as a thread has to itself.
  Plans shares = all.back();
  Blocks& keys = shares.backward.keys;
  shares.backward.by_keys = Schedule::tile_fused;
  keys.form = Form::h;
  keys.share = 16;
  keys.c = 144;
  keys.rho = 40;
  keys.w = 8;
  all.push_back(shares);
  return all;
}

template <class T>
std::vector<T> bits(const Plans& plans, const typename SdpaCase<T>::Run& run, SdpaCase<T>* of) {
  of->poison();
  EXPECT_TRUE(of->forward(plans.forward, run).is_ok());
  EXPECT_TRUE(of->backward_from_forward({true, true, true, false}, plans.backward, run).is_ok());
  return of->outputs();
}

// Heads [head, head + count) of entry b.
ref::Tensor<double> slice(const ref::Tensor<double>& all, std::size_t b, std::size_t head,
                          std::size_t count) {
  ref::Tensor<double> part(1, count, all.rows, all.cols);
  for (std::size_t i = 0; i < part.values.size(); ++i)
    part.values[i] = all.values[all.index(b, head, 0, 0) + i];
  return part;
}

template <class T>
bool has_slice(const ref::StridedTensor<T>& whole, std::size_t b, std::size_t head,
               const ref::StridedTensor<T>& part) {
  const ref::Tensor<T> all = whole.dense(), some = part.dense();
  return std::memcmp(&all.values[all.index(b, head, 0, 0)], some.values.data(),
                     some.values.size() * sizeof(T)) == 0;
}

// Every group of heads that shares keys, alone on one thread, has the bits that it has in `whole`.
template <class T>
void expect_heads_alone(const SdpaShape& shape, const ref::SdpaInputs<double>& inputs,
                        const Plans& plans, const kernels::KernelTable<T>& table,
                        const SdpaCase<T>& whole) {
  const std::size_t group = static_cast<std::size_t>(shape.group());
  SdpaShape alone = shape;
  alone.batch = alone.kv_heads = 1;
  alone.heads = shape.group();
  for (std::size_t b = 0; b < inputs.Q.batch; ++b)
    for (std::size_t kv = 0; kv < inputs.K.heads; ++kv) {
      ref::SdpaInputs<double> part = inputs;
      part.Q = slice(inputs.Q, b, kv * group, group);
      part.K = slice(inputs.K, b, kv, 1);
      part.V = slice(inputs.V, b, kv, 1);
      part.dO = slice(inputs.dO, b, kv * group, group);
      SdpaCase<T> one(alone, ref::Layout::bhsd, part);
      bits(plans, {&table, 1}, &one);
      EXPECT_TRUE(has_slice(whole.o(), b, kv * group, one.o()));
      EXPECT_TRUE(has_slice(whole.lse(), b, kv * group, one.lse()));
      EXPECT_TRUE(has_slice(whole.dq(), b, kv * group, one.dq()));
      EXPECT_TRUE(has_slice(whole.dk(), b, kv, one.dk()));
      EXPECT_TRUE(has_slice(whole.dv(), b, kv, one.dv()));
    }
}

template <class T>
class SdpaThreads : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SdpaThreads, Types);

TYPED_TEST(SdpaThreads, DoNotChangeABitOfAnyHead) {
  using T = TypeParam;
  int layout = 0;
  for (const Case& c : cases) {
    const SdpaShape shape = shape_of(c);
    const ref::SdpaInputs<double> inputs = SdpaCase<T>::inputs_for(shape, 31, 0);
    SdpaCase<T> problem(shape, ref::all_layouts[layout++ % 3], inputs);
    for (const kernels::KernelTable<T>* table : tables_under_test<T>())
      for (const Plans& plans : plans_for<T>(shape, table->tile)) {
        SCOPED_TRACE(std::string(c.problem) + " " + name_of(table->tile.isa) +
                     " r=" + std::to_string(plans.forward.r) +
                     " share=" + std::to_string(plans.backward.keys.share) +
                     (plans.backward.keys.one_pass ? " in one pass" : " in two passes"));
        std::vector<T> expected;
        for (const int threads : thread_counts) {
          const std::vector<T> got = bits(plans, {table, threads}, &problem);
          if (threads == 1) {
            expected = got;
            problem.check_forward(true, true, ref::pass_ratio);
            problem.check_backward({true, true, true, false}, ref::pass_ratio);
          }
          ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
              << threads << " threads";
        }
        expect_heads_alone(shape, inputs, plans, *table, problem);
        if (this->HasFailure()) return;
      }
  }
}

}  // namespace
}  // namespace ioattn_test
