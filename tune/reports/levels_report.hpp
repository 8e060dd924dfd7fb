#pragma once

#include <string>

#include "api/planning/session.hpp"
#include "plan/times/time_parts.hpp"
#include "tune/text/report_json.hpp"

// What a plan is predicted to do at every cache level.
namespace ioattn::tune {

struct LevelsReport {
  struct Level {
    std::string name;  // "L1", or "kernels": the multiply-adds
    index_t M = 0;     // 0: none
    std::string regime;
    double words = -1;  // that cross it; below 0: the model does not say
    double time = -1;   // of moving them, in multiply-adds
    std::string says;   // what the figures are
  };
  std::string of;  // what the figures are of
  std::vector<Level> levels;
  double total = 0;                     // multiply-adds
  double multiply_adds_per_second = 0;  // of a thread; 0: not measured
};

LevelsReport levels_of(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                       const plan::SdpaPlan& plan);
LevelsReport levels_of(const plan::LayerRequest& request, const std::optional<GradientSet>& set,
                       const plan::LayerPlan& plan);

Json levels_json(const LevelsReport& report);
std::string levels_text(const LevelsReport& report);

}  // namespace ioattn::tune
