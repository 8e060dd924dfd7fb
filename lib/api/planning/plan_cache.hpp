#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "plan/layer/layer_plan.hpp"
#include "plan/layer/planner.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

namespace ioattn::api {

// The last few plans that simple calls made, shared by all threads: choosing blocks takes longer
// than a short problem. A set of gradients, or none: the forward pass. Of one generation of wisdom,
// 0: made without it. Levels are short strings: nothing here allocates.
template <class Request, class Set, class Plan>
class PlanCache {
 public:
  // A child that was forked while another thread held the lock would wait forever: whoever does not
  // get it at once does without.
  bool find(const Request& request, const std::optional<Set>& set, std::uint64_t generation,
            Plan* plan) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    for (const std::optional<Entry>& entry : entries_) {
      if (!entry || !(entry->request == request) || entry->set != set ||
          entry->generation != generation) {
        continue;
      }
      *plan = entry->plan;
      return true;
    }
    return false;
  }
  void keep(const Request& request, const std::optional<Set>& set, std::uint64_t generation,
            const Plan& plan) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    entries_[next_] = {request, set, generation, plan};
    next_ = (next_ + 1) % entries_.size();
  }

 private:
  struct Entry {
    Request request;
    std::optional<Set> set;
    std::uint64_t generation;
    Plan plan;
  };
  std::mutex mutex_;
  std::array<std::optional<Entry>, 16> entries_;
  std::size_t next_ = 0;
};

using SdpaPlanCache = PlanCache<plan::SdpaRequest, SdpaSet, plan::SdpaPlan>;
using LayerPlanCache = PlanCache<plan::LayerRequest, GradientSet, plan::LayerPlan>;
SdpaPlanCache& sdpa_plans();
LayerPlanCache& layer_plans();

}  // namespace ioattn::api
