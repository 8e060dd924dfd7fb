#pragma once

#include <optional>
#include <string>

#include "api/known/wisdom_state.hpp"
#include "plan/sdpa/sdpa_planner.hpp"

// What is known of passes of SDPA. No set: the forward pass.
namespace ioattn::api {

// "forward", or "dQ+dK+dV+dBias" of which those that are wanted.
std::string name_of_pass(const std::optional<SdpaSet>& set);
bool parse_pass(const std::string& name, std::optional<SdpaSet>* set);

wisdom::ProblemClass class_of(const SdpaShape& shape, DType dtype,
                              const std::optional<SdpaSet>& set);
inline wisdom::ProblemClass class_of(const plan::SdpaRequest& request,
                                     const std::optional<SdpaSet>& set) {
  return class_of(request.shape, request.dtype, set);
}

// The plan of a record, if it is one for the request: kernels that are here, and blocks that fit
// its level.
wisdom::Verdict read_plan(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                          const wisdom::Record& record, plan::SdpaPlan* plan);

}  // namespace ioattn::api
