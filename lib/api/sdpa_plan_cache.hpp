#pragma once

#include <cstdint>
#include <optional>

#include "plan/sdpa_planner.hpp"

namespace ioattn::api {

// The last few plans that simple calls made, shared by all threads: choosing blocks takes longer
// than a short problem. A set of gradients, or none: the forward pass. Of one generation of wisdom,
// 0: made without it.
bool find_sdpa_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                    std::uint64_t generation, plan::SdpaPlan* plan);
void keep_sdpa_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                    std::uint64_t generation, const plan::SdpaPlan& plan);

}  // namespace ioattn::api
