// What an observer counts of SDPA is what a walk through its loops, element by element, counts
// (reference/sdpa_walk.hpp): no formula and no code of lib has a part in what is expected.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "data_path.hpp"
#include "instruments/io_counter.hpp"
#include "reference/sdpa_walk.hpp"
#include "schedules/half_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_sdpa.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
using ioattn_reference::SdpaWalk;
using ioattn_reference::WalkedPhase;

SdpaWalk::Blocks walked(const Blocks& blocks) {
  return {blocks.r, blocks.c, blocks.rho, blocks.w, blocks.o, blocks.packed, blocks.parked};
}

SdpaWalk walk_of(const SdpaShape& s) {
  SdpaWalk walk;
  walk.batch = s.batch;
  walk.heads = s.heads;
  walk.kv_heads = s.kv_heads;
  walk.n = s.n;
  walk.m = s.m;
  walk.d = s.d;
  walk.dv = s.dv;
  walk.masked = s.mask.hides();
  walk.first = s.mask.first;
  walk.last = s.mask.last;
  walk.bias_batch = s.bias_batch;
  walk.bias_heads = s.bias_heads;
  return walk;
}

SdpaWalk forward_walk(const SdpaShape& shape, const Blocks& blocks, bool o, bool lse) {
  SdpaWalk walk = walk_of(shape);
  walk.O = o;
  walk.LSE = lse;
  walk.rows = walked(blocks);
  walk.tiles = blocks.r == 0;
  return walk;
}

SdpaWalk backward_walk(const SdpaShape& shape, const SdpaSet& set, const SdpaBlocks& blocks) {
  SdpaWalk walk = walk_of(shape);
  walk.dQ = set.dQ;
  walk.dK = set.dK;
  walk.dV = set.dV;
  walk.dBias = set.dBias;
  walk.accumulate = set.accumulate;
  walk.gradients_in_f32 = set.in_f32;
  walk.rows = walked(blocks.rows);
  walk.keys = walked(blocks.keys);
  walk.tiles = blocks.by_keys == Schedule::tile_fused;
  walk.dQ_by_keys = set.in_one_pass(blocks);
  // Under a mask a block of keys of tile_fused is a share.
  if (walk.tiles && walk.masked && blocks.keys.share > 0) walk.keys.c = blocks.keys.share;
  return walk;
}

// Peaks are of the same order of events: backward tile_fused may have another one, as columns come
// ahead (base/tile_steps.hpp), and results in 16 bits are rounded a piece at a time.
void expect_walked(const instruments::IoCounter& counter, const std::vector<WalkedPhase>& phases,
                   bool with_peaks) {
  ASSERT_EQ(counter.violation(), "");
  ASSERT_EQ(counter.phases().size(), phases.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto& [name, counted] = counter.phases()[i];
    EXPECT_EQ(name, phases[i].name);
    EXPECT_EQ(counted.reads, phases[i].reads) << name;
    EXPECT_EQ(counted.writes, phases[i].writes) << name;
    EXPECT_EQ(counted.created, phases[i].created) << name;
    if (with_peaks) {
      EXPECT_EQ(counted.footprint, phases[i].peak) << name;
    }
  }
}

struct Seen {
  int masked = 0, groups = 0, biased = 0, by_tiles = 0, by_rows = 0, on_the_way = 0, packed = 0,
      parked = 0;
};

// S: of operands; G: of gradients.
template <class S, class G>
void check_random(unsigned seed, const kernels::KernelTable<float>& table) {
  RandomProblem random(seed);
  const bool pairs = std::is_same_v<S, bf16> && table.pairs_of_bf16 != nullptr;
  Seen seen;
  for (int trial = 0; trial < 1500 && !testing::Test::HasFailure(); ++trial) {
    SdpaShape shape = random_shape(&random, 24, 10);
    SdpaSet set = random_set(&random);
    add_random_bias(&random, &shape, &set);
    set.in_f32 = is_half_storage<S> && !is_half_storage<G>;
    SdpaBlocks blocks = any_blocks(&random);
    blocks.keys.one_pass = blocks.keys.one_pass && !set.dBias;
    Blocks forward = blocks.rows;
    forward.r *= random.uniform(0, 1);  // 0: by tiles
    const bool o = random.uniform(0, 3) > 0, lse = !o || random.uniform(0, 3) > 0;
    SCOPED_TRACE(to_text(SdpaProblem{shape}) + " trial " + std::to_string(trial));
    HalfCase<S, G> problem(shape);
    problem.randomise(unsigned(trial));

    SdpaWalk walk = forward_walk(shape, forward, o, lse);
    walk.half = is_half_storage<S>;
    walk.pairs = pairs;
    instruments::IoCounter of_forward, of_backward;
    ASSERT_OK(problem.forward(forward, {&table, 1, &of_forward}, o, lse));
    expect_walked(of_forward, walk_forward(walk), !walk.half);

    walk = backward_walk(shape, set, blocks);
    walk.half = is_half_storage<S>;
    walk.pairs = pairs;
    walk.keys.packed = walk.keys.packed && pairs;
    walk.keys.parked = walk.keys.parked && !pairs;
    const bool parks = walk.keys.parked && set.key_kind(blocks).makes_p();
    ASSERT_OK(problem.backward(set, blocks, {&table, 1, &of_backward}));
    expect_walked(of_backward, walk_backward(walk), !walk.half && (!walk.tiles || parks));

    seen.masked += walk.masked;
    seen.groups += shape.group() > 1;
    seen.biased += set.dBias;
    seen.by_tiles += set.key_pass(blocks) && walk.tiles;
    seen.by_rows += set.query_pass(blocks);
    seen.on_the_way += walk.dQ_by_keys;
    seen.packed += walk.keys.packed && walk.tiles;
    seen.parked += parks && walk.tiles && set.key_pass(blocks);
  }
  EXPECT_GT(seen.masked, 100);
  EXPECT_GT(seen.groups, 100);
  EXPECT_GT(seen.biased, 50);
  EXPECT_GT(seen.by_tiles, 100);
  EXPECT_GT(seen.by_rows, 100);
  EXPECT_GT(seen.on_the_way, 50);
  EXPECT_GT(seen.packed, pairs ? 20 : -1);
  EXPECT_GT(seen.parked, pairs ? -1 : 20);
}

TEST(SdpaWalk, CountsF32) { check_random<float, float>(91, odd_tile<float>()); }
TEST(SdpaWalk, Counts16Bits) { check_random<bf16, bf16>(92, odd_tile<float>()); }
TEST(SdpaWalk, Counts16BitsWithGradientsInF32) { check_random<f16, float>(93, odd_tile<float>()); }
TEST(SdpaWalk, CountsPairs) { check_random<bf16, bf16>(94, odd_tile_of_pairs()); }
TEST(SdpaWalk, CountsPairsWithGradientsInF32) {
  check_random<bf16, float>(95, odd_tile_of_pairs());
}

// tests/data/sdpa_blocks.csv: reads, writes and peak of resident words that another program
// counted, event by event, of random sizes and blocks of row_stream and col_stream.
TEST(SdpaWalk, IsAnotherProgramsCount) {
  std::ifstream file(data_path("sdpa_blocks.csv"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  ASSERT_EQ(line, "pass,n,m,d,dv,r,c,rho,reads,writes,footprint");
  int lines = 0;
  while (std::getline(file, line)) {
    SCOPED_TRACE(line);
    std::istringstream fields(line);
    std::string pass;
    ASSERT_TRUE(std::getline(fields, pass, ','));
    index_t n, m, d, dv, r, c, rho, reads, writes, footprint;
    char comma;
    ASSERT_TRUE(fields >> n >> comma >> m >> comma >> d >> comma >> dv >> comma >> r >> comma >>
                c >> comma >> rho >> comma >> reads >> comma >> writes >> comma >> footprint);
    const SdpaShape shape = {1, 1, 1, n, m, d, dv};
    SdpaBlocks blocks;
    for (Blocks* each : {&blocks.rows, &blocks.keys}) {
      each->form = Form::h;
      each->products = Products::stored;
      each->w = each->o = 1;
      each->r = r;
      each->c = c;
      each->rho = rho;
    }
    blocks.keys.one_pass = pass == "dQ dK dV";
    const SdpaSet set = {pass == "dQ" || pass == "dQ dK dV", pass != "dQ", pass != "dQ"};
    HalfCase<float> problem(shape);
    problem.randomise(1);
    instruments::IoCounter counter;
    const HalfCase<float>::Run run = {&odd_tile<float>(), 1, &counter};
    std::vector<WalkedPhase> phases;
    if (pass == "forward") {
      ASSERT_OK(problem.forward(blocks.rows, run));
      phases = walk_forward(forward_walk(shape, blocks.rows, true, true));
    } else {
      ASSERT_OK(problem.backward(set, blocks, run));
      phases = walk_backward(backward_walk(shape, set, blocks));
    }
    expect_walked(counter, phases, true);
    EXPECT_EQ(phases.back().reads, reads);
    EXPECT_EQ(phases.back().writes, writes);
    EXPECT_EQ(phases.back().peak, footprint);
    ++lines;
  }
  EXPECT_EQ(lines, 120);
}

}  // namespace
}  // namespace ioattn_test
