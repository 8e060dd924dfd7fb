#pragma once

#include <optional>

#include "plan/layer/layer_candidates.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"

// What the predicted time of a plan is made of, in multiply-adds: of a head of SDPA without its
// mask, or of an entry of the layer problem.
namespace ioattn::plan {

struct TimeParts {
  double products = 0;      // multiply-adds, longer for short sums and padded lanes; operands in L2
  index_t outer_words = 0;  // that cross the plan's level, and the time of moving them
  double outer_time = 0;
  double inner_words = 0;  // of a plan held in the outer cache: from there to the inner one
  double inner_time = 0;
  // About how many words pass from L2 to L1 while the kernels run: no time of their own, as rates
  // are those of operands in L2; below 0: the model does not say.
  double kernel_words = -1;

  double total() const { return products + outer_time + inner_time; }
};

// The price is the request's, or that of time where words decide. No set: the forward pass.
// L1: words of M there.
TimeParts time_parts(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                     const SdpaPlan& plan, index_t L1);
TimeParts time_parts(const LayerRequest& request, const std::optional<GradientSet>& set,
                     const LayerPlan& plan, index_t L1);

}  // namespace ioattn::plan
