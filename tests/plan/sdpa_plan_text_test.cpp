// A plan of SDPA and its text are the same thing, for the pass or the set of gradients that it is
// of: blocks of every phase that runs are told, and no others.

#include <gtest/gtest.h>

#include "plan/sdpa/sdpa_planner.hpp"
#include "schedules/random_sdpa.hpp"
#include "status_ok.hpp"

namespace ioattn::plan {
namespace {

constexpr index_t most_words = index_t(1) << 20;

// Planned for a random problem: by an M that is often small, now and then in L3.
struct RandomPlan {
  explicit RandomPlan(ioattn_test::RandomProblem* random) : set(ioattn_test::random_set(random)) {
    SdpaRequest request;
    request.shape = ioattn_test::random_shape(random, 3000, 300);
    request.tile = {static_cast<Isa>(random->uniform(0, isa_count - 1)),
                    static_cast<int>(random->uniform(1, 14)),
                    static_cast<int>(random->uniform(1, 48))};
    request.M = random->logarithmic(2000, most_words);
    request.outer_M = random->uniform(0, 1) * 4 * request.M;
    EXPECT_OK(make_plan_of(request, std::nullopt, &forward));
    EXPECT_OK(make_plan_of(request, set, &backward));
  }
  SdpaSet set;
  SdpaPlan forward, backward;
};

TEST(SdpaPlanText, IsReadBack) {
  ioattn_test::RandomProblem random(81);
  int one_pass = 0, outer = 0, by_tiles = 0, forward_by_tiles = 0, several_shares = 0;
  for (int round = 0; round < 1000; ++round) {
    const RandomPlan plans(&random);
    std::string error;
    SdpaPlan forward = plans.backward, backward = plans.forward;
    ASSERT_TRUE(parse_sdpa_plan(to_text(plans.forward), std::nullopt, &forward, &error)) << error;
    ASSERT_EQ(forward, plans.forward);
    ASSERT_TRUE(parse_sdpa_plan(to_text(plans.backward), plans.set, &backward, &error)) << error;
    ASSERT_EQ(backward, plans.backward) << to_text(plans.backward);
    // Nothing of delta is lost where no pass over the queries is printed.
    ASSERT_EQ(backward.blocks.rows.o > 0 && backward.blocks.rows.w > 0, plans.set.delta());
    ASSERT_EQ(backward.blocks.rows.r > 0, plans.set.query_pass(backward.blocks));
    one_pass += backward.blocks.keys.one_pass;
    outer += backward.level == "L3";
    by_tiles += backward.blocks.by_keys == Schedule::tile_fused;
    several_shares += backward.blocks.keys.share > 0;
    forward_by_tiles += forward_schedule(forward.blocks.rows) == Schedule::tile_fused;
  }
  EXPECT_GT(one_pass, 100);
  EXPECT_GT(outer, 30);
  EXPECT_GT(by_tiles, 30);
  EXPECT_GT(several_shares, 10);
  EXPECT_GT(forward_by_tiles, 30);
}

SdpaPlan example() {
  SdpaPlan plan;
  plan.blocks.rows.form = plan.blocks.keys.form = Form::h;
  plan.blocks.rows.products = Products::stored;
  plan.blocks.rows.r = 80;
  plan.blocks.rows.c = 64;
  plan.blocks.rows.rho = 16;
  plan.blocks.rows.o = 512;
  plan.blocks.rows.w = 48;
  plan.blocks.keys.c = 96;
  plan.blocks.keys.rho = 128;
  plan.tile = {Isa::avx2, 6, 16};
  return plan;
}

const std::string tile = " > reg:avx2(6x16)";
const std::string rows = "L2:row_stream(form=h,r=80,c=64,rho=16,stored)" + tile;
const std::string keys = "L2:col_stream(form=h,c=96,rho=128)" + tile;
const std::string keys_in_one_pass = "L2:col_stream(form=h,c=96,rho=128,one_pass)" + tile;
const std::string tiles_in_one_pass = "L2:tile_fused(form=h,c=96,rho=128,w=64,one_pass)" + tile;
const std::string shares = "L2:tile_fused(form=h,c=96,share=48,rho=128,w=64,one_pass)" + tile;
const std::string delta = "delta=512x48";
const std::string of_pairs = " > reg:avx512_bf16(8x32)";
const std::string packed = "L2:tile_fused(form=h,c=96,rho=128,w=64,one_pass,packed)";
const std::string parked = "L2:tile_fused(form=h,c=96,rho=128,w=64,one_pass,parked)";

const std::string tiles = "L2:tile_fused(form=h,c=96,rho=128,w=64)" + tile;
SdpaBlocks forward_tiles() {
  SdpaBlocks blocks;
  blocks.rows.form = Form::h;
  blocks.rows.c = 96;
  blocks.rows.rho = 128;
  blocks.rows.w = 64;
  return blocks;
}

TEST(SdpaPlanText, ListsWhatRuns) {
  SdpaPlan plan = example();
  const auto text = [&](const SdpaSet& set) {
    SdpaPlan taken = plan;
    taken.blocks = blocks_taken(plan.blocks, set);
    return to_text(taken);
  };
  EXPECT_EQ(text({true, true, true, false}), rows + " ; " + keys + " ; " + delta);
  EXPECT_EQ(text({true, false, false, false}), rows + " ; " + delta);
  EXPECT_EQ(text({false, true, false, true}), keys + " ; " + delta);
  EXPECT_EQ(text({false, false, true, false}), keys);
  plan.blocks.keys.one_pass = true;
  EXPECT_EQ(text({true, false, true, false}), keys_in_one_pass + " ; " + delta);
  EXPECT_EQ(text({true, false, false, false}), rows + " ; " + delta);
  EXPECT_EQ(text({false, true, true, false}), keys + " ; " + delta);
  plan.blocks.by_keys = Schedule::tile_fused;
  plan.blocks.keys.w = 64;
  EXPECT_EQ(text({true, true, true, false}), tiles_in_one_pass + " ; " + delta);
  EXPECT_EQ(text({false, false, true, false}), tiles);
  EXPECT_EQ(text({true, false, false, false}), tiles_in_one_pass + " ; " + delta);
  EXPECT_EQ(text({true, false, false, false, true}), rows + " ; " + delta);
  plan.blocks.keys.share = 48;
  EXPECT_EQ(text({true, true, true, false}), shares + " ; " + delta);
  EXPECT_EQ(text({false, false, true, false}), tiles);
  plan.blocks = blocks_taken(plan.blocks, std::nullopt);
  EXPECT_EQ(to_text(plan), rows);
  plan.blocks = blocks_taken(forward_tiles(), std::nullopt);
  EXPECT_EQ(to_text(plan), tiles);
}

TEST(SdpaPlanText, PairsMayBePackedOnce) {
  const SdpaSet all = {true, true, true};
  const std::string text = packed + of_pairs + " ; " + delta;
  SdpaPlan plan;
  std::string error;
  ASSERT_TRUE(parse_sdpa_plan(text, all, &plan, &error)) << error;
  EXPECT_TRUE(plan.blocks.keys.packed);
  EXPECT_EQ(to_text(plan), text);
}

TEST(SdpaPlanText, WeightsOfNumbersMayBeParked) {
  const std::string dk = "L2:tile_fused(form=h,c=96,rho=128,w=64,parked)" + tile;
  const std::pair<std::string, SdpaSet> texts[] = {
      {parked + tile + " ; " + delta, {true, true, true}},
      {parked + tile + " ; " + delta, {true, false, false}},
      {dk + " ; " + delta, {false, true, false}}};
  for (const auto& [text, set] : texts) {
    SdpaPlan plan;
    std::string error;
    ASSERT_TRUE(parse_sdpa_plan(text, set, &plan, &error)) << error;
    EXPECT_TRUE(plan.blocks.keys.parked);
    EXPECT_EQ(to_text(plan), text);
  }
}

// Fails, says why, and leaves the plan as it was.
void expect_refused(const std::string& text, const std::optional<SdpaSet>& set) {
  const SdpaPlan before = example();
  SdpaPlan plan = before;
  std::string error;
  EXPECT_FALSE(parse_sdpa_plan(text, set, &plan, &error)) << text;
  EXPECT_EQ(error.find("not a plan of "), 0u) << error;
  EXPECT_NE(error.find(text), std::string::npos) << error;
  EXPECT_EQ(plan, before);
}

TEST(SdpaPlanText, RefusesWhatIsOfAnotherSet) {
  const SdpaSet all = {true, true, true, false}, dq = {true, false, false, false},
                dv = {false, false, true, false}, none = {};
  for (const std::string& text : {rows, keys, delta, rows + " ; " + keys, keys + " ; " + delta})
    for (const SdpaSet& set : {none, dq, all})
      if (set != all || text != keys + " ; " + delta) expect_refused(text, set);
  expect_refused(rows + " ; " + keys + " ; " + delta, dq);
  expect_refused(rows + " ; " + keys_in_one_pass + " ; " + delta, all);
  expect_refused(keys_in_one_pass, dv);
  expect_refused(tiles_in_one_pass, dv);
  expect_refused(tiles_in_one_pass, dq);  // without delta
  expect_refused(tiles + " ; " + delta, dq);
  expect_refused(keys_in_one_pass + " ; " + delta, dq);
  expect_refused(keys + " ; " + delta, dv);
  expect_refused("L2:tile_fused(form=h,c=96,rho=128,w=64,parked)" + tile, dv);  // it has no q
  expect_refused(rows + " ; " + delta, std::nullopt);
  expect_refused(keys, std::nullopt);
  for (const std::string& text :
       {tiles_in_one_pass, tiles + " ; " + tiles, rows + " ; " + tiles, tiles + " ; " + delta,
        "L2:tile_fused(form=h,c=96,rho=128)" + tile,
        "L2:tile_fused(form=g,c=96,rho=128,w=64)" + tile,
        "L2:tile_fused(form=h,r=3,c=96,rho=128,w=64)" + tile,
        "L2:tile_fused(form=h,c=96,rho=128,w=64,stored)" + tile,
        "L2:row_stream(form=h,c=96,rho=128,w=64)" + tile,
        "L2:tile_fused(form=h,c=96,rho=128,w=64,packed)" + of_pairs,
        "L2:tile_fused(form=h,c=96,rho=128,w=64,parked)" + tile})
    expect_refused(text, std::nullopt);
}

TEST(SdpaPlanText, RefusesOtherSpellings) {
  const SdpaSet all = {true, true, true, false};
  const std::string good = rows + " ; " + keys + " ; " + delta;
  for (const std::string& text :
       {std::string(),
        good + " ; ",
        " ; " + good,
        good + good,
        good + " ; " + delta,
        rows + " ; " + delta + " ; " + keys,
        rows + " ; " + keys + " ; delta=512x0",
        rows + " ; " + keys + " ; delta=512",
        rows + " ; " + keys + " ; delta=512x48x1",
        rows + " ; " + keys + " ; delta=512x48a",
        rows + " ; " + keys + " ; dY=1x1x1",
        "L3" + rows.substr(2) + " ; " + keys + " ; " + delta,
        "L2:row_stream(form=g,r=80,c=64,rho=16,stored)" + tile + " ; " + keys + " ; " + delta,
        "L2:row_stream(form=h,r=80,c=64,rho=16)" + tile + " ; " + keys + " ; " + delta,
        "L2:row_stream(form=h,r=80,c=64,rho=16,w=4,stored)" + tile + " ; " + keys + " ; " + delta,
        "L2:stationary(form=h,r=80,c=64,rho=16,stored)" + tile + " ; " + keys + " ; " + delta,
        rows + " ; L2:col_stream(form=h,r=2,c=96,rho=128)" + tile + " ; " + delta,
        rows + " ; L2:col_stream(form=g,c=96,rho=128)" + tile + " ; " + delta,
        rows + " ; L2:col_stream(form=h,c=96,rho=128,w=64)" + tile + " ; " + delta,
        rows + " ; L2:tile_fused(form=h,c=96,rho=128)" + tile + " ; " + delta,
        "L2:tile_fused(form=h,c=96,share=64,rho=128,w=64,one_pass)" + tile + " ; " + delta,
        "L2:tile_fused(form=h,c=96,share=3,rho=128,w=64,one_pass)" + tile + " ; " + delta,
        "L2:tile_fused(form=h,c=96,share=0,rho=128,w=64,one_pass)" + tile + " ; " + delta,
        "L2:tile_fused(form=h,share=48,c=96,rho=128,w=64,one_pass)" + tile + " ; " + delta,
        "L2:col_stream(form=h,c=96,share=48,rho=128,one_pass)" + tile + " ; " + delta,
        packed + tile + " ; " + delta,
        parked + of_pairs + " ; " + delta,
        "L2:col_stream(form=h,c=96,rho=128,one_pass,parked)" + tile + " ; " + delta,
        "L2:col_stream(form=h,c=96,rho=128,one_pass,packed)" + of_pairs + " ; " + delta,
        "L2:tile_fused(form=h,c=96,rho=128,w=64,packed,one_pass)" + of_pairs + " ; " + delta,
        rows + " ; L2:row_stream(form=h,c=96,rho=128)" + tile + " ; " + delta})
    expect_refused(text, all);
  SdpaPlan plan;
  std::string error;
  EXPECT_FALSE(parse_sdpa_plan(rows + " ; " + delta + " ; " + keys, all, &plan, &error));
  EXPECT_NE(error.find("(did you mean " + good + "?)"), std::string::npos) << error;
}

// A part of a text is the text of another plan or none.
TEST(SdpaPlanText, RefusesTruncations) {
  ioattn_test::RandomProblem random(82);
  for (int round = 0; round < 100; ++round) {
    const RandomPlan plans(&random);
    const std::string text = to_text(plans.backward);
    for (std::size_t size = 0; size < text.size(); ++size) {
      for (const std::string& part : {text.substr(0, size), text.substr(size + 1)}) {
        SdpaPlan plan;
        std::string error;
        if (parse_sdpa_plan(part, plans.set, &plan, &error)) {
          ASSERT_EQ(to_text(plan), part);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ioattn::plan
