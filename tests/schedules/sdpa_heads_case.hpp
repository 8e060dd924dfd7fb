#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/sdpa/sdpa_planner.hpp"
#include "status_ok.hpp"

// Problems of several heads, and plans for them: for little and for much fast memory, in one pass
// and in two.
namespace ioattn_test {

struct HeadsCase {
  const char* problem;
  // One whose masks are not named.
  ioattn::Mask band = {};
};
inline const HeadsCase heads_cases[] = {
    {"sdpa:n150,m130,d12,v9"},                 // one head: its rows are shared out
    {"sdpa:n150,m130,d12,v9,causal"},          //
    {"sdpa:n3,m200,d8"},                       // fewer rows than threads
    {"sdpa:n200,m3,d8,causal"},                // fewer keys than threads
    {"sdpa:b3,h3,kv3,n40,m55,d10,v6"},         // heads that no number of threads divides
    {"sdpa:b2,h6,kv2,n35,m50,d9,v12,causal"},  // groups
    {"sdpa:h5,kv1,n60,m45,d7,v7"},             // one group
    {"sdpa:b1,h8,kv8,n33,m20,d5,v5,causal"},   //
    {"sdpa:b5,h4,kv2,n17,m19,d6,v4", ioattn::Mask{-3, 9}},   //
    {"sdpa:h2,kv2,n70,m90,d20,v20", ioattn::Mask{40, 200}},  // queries that see nothing
    {"sdpa:n260,m130,d8", ioattn::Mask{-64, 1}},  // groups of rows that blocks of keys divide
    // Rows of O and V that kernels take where they lie, but for heads whose rows lie apart.
    {"sdpa:h2,kv1,n70,m60,d8,v32,causal"},  // rows of heads
    {"sdpa:h2,kv1,n40,m50,d6,v20"},         // gaps between rows, panels of the odd tile
};

inline ioattn::SdpaShape shape_of(const HeadsCase& c) {
  ioattn::SdpaProblem problem;
  std::string error;
  EXPECT_TRUE(parse_problem(c.problem, &problem, &error)) << error;
  if (c.band.hides()) problem.shape.mask = c.band;
  return problem.shape;
}

// How a problem is computed.
struct Plans {
  ioattn::Blocks forward;
  ioattn::SdpaBlocks backward;
};

// Of numbers stored as S, by kernels of the tile.
template <class S>
std::vector<Plans> plans_for(const ioattn::SdpaShape& shape, const ioattn::TileShape& tile) {
  using ioattn::Schedule;
  std::vector<Plans> all;
  for (const ioattn::index_t M : {900, 6000, 200000}) {
    ioattn::plan::SdpaRequest request;
    request.shape = shape;
    request.dtype = ioattn::dtype_of<S>::value;
    request.M = M * ioattn::theory::resident_words(request.dtype);
    request.tile = tile;
    const auto planned = [&](const ioattn::SdpaSet& set) {
      ioattn::plan::SdpaPlan plan;
      const ioattn::Status status = make_plan_of(request, set, &plan);
      EXPECT_OK(status);
      return plan.blocks;
    };
    ioattn::plan::SdpaPlan forward;
    EXPECT_OK(make_plan_of(request, std::nullopt, &forward));
    ioattn::SdpaBlocks two;
    two.keys = planned({false, true, true, false}).keys;
    request.form = ioattn::plan::SdpaForm::rows;
    two.rows = planned({true, false, false, false}).rows;
    if (multiplies_pairs(tile.isa)) two.by_keys = Schedule::tile_fused;  // the pass that does
    ioattn::SdpaBlocks one = two;
    one.keys.one_pass = true;
    all.push_back({forward.blocks.rows, two});
    all.push_back({forward.blocks.rows, one});
  }
  // Blocks of as many shares as a thread has to itself.
  Plans shares = all.back();
  ioattn::Blocks& keys = shares.backward.keys;
  shares.backward.by_keys = Schedule::tile_fused;
  keys.form = ioattn::Form::h;
  keys.share = 16;
  keys.c = 144;
  keys.rho = 40;
  keys.w = 8;
  all.push_back(shares);
  if (multiplies_pairs(tile.isa)) return all;
  shares.backward.keys.parked = true;
  all.push_back(shares);
  return all;
}

inline std::string name_of(const Plans& plans) {
  return "r=" + std::to_string(plans.forward.r) + " " + name_of(plans.backward.by_keys) +
         " share=" + std::to_string(plans.backward.keys.share) +
         (plans.backward.keys.parked ? " parked" : "") +
         (plans.backward.keys.one_pass ? " in one pass" : " in two passes");
}

// One head of keys with the query heads that share it.
inline ioattn::SdpaShape group_alone(ioattn::SdpaShape shape) {
  shape.heads = shape.group();
  shape.batch = shape.kv_heads = 1;
  return shape;
}

}  // namespace ioattn_test
