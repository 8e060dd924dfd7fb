#pragma once

#include <optional>
#include <string>

#include "api/known/wisdom_state.hpp"
#include "plan/layer/layer_candidates.hpp"

// What is known of passes of the layer problem, as sdpa_wisdom.hpp of SDPA's. No set: the forward
// pass.
namespace ioattn::api {

// "forward", or "dX+dY+dA1+dA2+dA3+dA+dW_Q+dW_K" of which those that are wanted.
std::string name_of_pass(const std::optional<GradientSet>& set);
// dk is left alone.
bool parse_pass(const std::string& name, std::optional<GradientSet>* set);

// Its operation names what plans differ by: "layer:dX", then the fields of a problem's text for
// operands that share memory and for the mask: "layer:dX+dY,tied,causal".
wisdom::ProblemClass class_of(const LayerProblem& problem, const std::optional<GradientSet>& set);
inline wisdom::ProblemClass class_of(const plan::LayerRequest& request,
                                     const std::optional<GradientSet>& set) {
  return class_of(request.problem, set);
}
// The least problem of a class; false if no problem of this version is of it.
bool problem_of_class(const wisdom::ProblemClass& of, LayerProblem* problem,
                      std::optional<GradientSet>* set);
bool is_layer(const wisdom::ProblemClass& of);

// The plan of a record, if it is one for the request: kernels that are here, a schedule that the
// problem and the limit on memory allow, and blocks that fit its level.
wisdom::Verdict read_plan(const plan::LayerRequest& request, const std::optional<GradientSet>& set,
                          const wisdom::Record& record, plan::LayerPlan* plan);

}  // namespace ioattn::api
