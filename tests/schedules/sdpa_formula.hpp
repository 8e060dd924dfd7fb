#pragma once

#include <gtest/gtest.h>

#include <string>

#include "instruments/io_counter.hpp"
#include "plan/sdpa/sdpa_planner.hpp"
#include "theory/sdpa_cost.hpp"

// Counts of SDPA and what plans refuse, held against the formulas.
namespace ioattn_test {

// What was counted, phase by phase.
inline void hold_to_formula(const ioattn::instruments::IoCounter& counter,
                            const ioattn::theory::ScheduleCost& cost,
                            const ioattn::SdpaShape& shape) {
  ASSERT_EQ(counter.violation(), "");
  ASSERT_EQ(int(counter.phases().size()), cost.phase_count);
  for (int i = 0; i < cost.phase_count; ++i) {
    const auto& counted = counter.phases()[std::size_t(i)];
    const ioattn::theory::PhaseCost& formula = cost.phases[std::size_t(i)];
    ASSERT_STREQ(counted.name, formula.name);
    ASSERT_EQ(counted.count.reads, formula.cost.reads) << formula.name;
    ASSERT_EQ(counted.count.writes, formula.cost.writes) << formula.name;
    ASSERT_EQ(counted.count.created, formula.cost.created) << formula.name;
    // Under a mask the formula of the footprint is an upper bound.
    ASSERT_LE(counted.count.footprint, formula.cost.footprint) << formula.name;
    if (!shape.mask.hides()) {
      ASSERT_EQ(counted.count.footprint, formula.cost.footprint) << formula.name;
    }
  }
}

// What the planner makes of a problem for one M or another.
struct PlannedSdpa {
  ioattn::SdpaSet set;
  ioattn::plan::SdpaRequest request;
  ioattn::plan::SdpaPlan plan;
  ioattn::plan::Estimate estimate;

  PlannedSdpa(const ioattn::SdpaShape& shape, const ioattn::SdpaSet& wanted, ioattn::DType dtype,
              const ioattn::TileShape& tile)
      : set(wanted) {
    request.shape = shape;
    request.dtype = dtype;
    request.level = "M";
    request.tile = tile;
  }
  ioattn::Status forward() { return make_plan_of(request, std::nullopt, &plan, &estimate); }
  ioattn::Status backward() { return make_plan_of(request, set, &plan, &estimate); }
  // From the refusal of one word.
  ioattn::index_t least_M(ioattn::Status (PlannedSdpa::*pass)()) {
    request.M = 1;
    const std::string message = (this->*pass)().message();
    const std::string key = "the least is ";
    const std::size_t at = message.find(key);
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 1 : std::stoll(message.substr(at + key.size()));
  }
};

}  // namespace ioattn_test
