#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "api/c/c_boundary.hpp"
#include "api/plans/layer_plan.hpp"
#include "api/plans/packed_plan.hpp"
#include "api/plans/sdpa_plan.hpp"
#include "api/run_options.hpp"

// What callers hold: a plan of either problem, and what its executions are asked to count.
struct ioattn_plan {
  std::variant<ioattn::api::LayerPlan, ioattn::api::SdpaPlan, ioattn::api::PackedPlan> plan;
  mutable ioattn::api::OverflowStatistics overflows = {};
};

namespace ioattn::api {

// Makes a plan with make(goal, options, Planned*), for the goal that goal_of(Goal*) finds, and
// hands it out.
template <class Planned, class GoalOf, class Make>
Status new_plan(const GoalOf& goal_of, const ioattn_options* options, ioattn_plan** plan,
                const Make& make) {
  if (plan == nullptr) return invalid("plan is null");
  typename Planned::Goal goal;
  RunOptions run;
  Status status = goal_of(&goal);
  if (status.is_ok()) status = run_options(options, &run);
  if (!status.is_ok()) return status;
  Planned made;
  status = make(goal, run, &made);
  if (status.is_ok()) *plan = new ioattn_plan{std::move(made)};
  return status;
}
template <class Planned, class GoalOf>
Status parsed_plan(const GoalOf& goal_of, const ioattn_options* options, const char* text,
                   ioattn_plan** plan) {
  if (text == nullptr) return invalid("text is null");
  const auto parse = [&](const typename Planned::Goal& goal, const RunOptions& run, Planned* made) {
    return Planned::parse(goal, run, text, made);
  };
  return new_plan<Planned>(goal_of, options, plan, parse);
}

// The plan, if it is one of this problem and pass.
template <class Planned>
Status find_plan(const ioattn_plan* plan, Pass pass, const Planned** found) {
  if (plan == nullptr) return invalid("plan is null");
  *found = std::get_if<Planned>(&plan->plan);
  if (*found == nullptr) {
    const auto kind_of = [](const auto& planned) { return planned.kind; };
    return Status::error(StatusCode::invalid_argument, "the plan is of %s, not of %s",
                         std::visit(kind_of, plan->plan), Planned::kind);
  }
  if ((*found)->goal().pass == pass) return Status::ok();
  return Status::error(StatusCode::invalid_argument, "the plan is of a %s pass",
                       name_of((*found)->goal().pass));
}

// The end of an execution.
inline Status executed(const Status& status, const ioattn_plan* plan) {
  if (status.is_ok()) plan->overflows.add_execution();
  return status;
}

// Of a lent workspace; no plan needs more.
inline index_t lent_bytes(size_t size) {
  return static_cast<index_t>(std::min<size_t>(size, std::numeric_limits<index_t>::max()));
}

template <class Planned>
Status check_workspace(const Planned& plan, const void* workspace, size_t workspace_size) {
  const index_t bytes = plan.workspace_bytes();
  if (workspace == nullptr || workspace_size >= static_cast<size_t>(bytes)) return Status::ok();
  return Status::error(StatusCode::invalid_argument,
                       "a workspace of %zu bytes is too small: %lld are needed", workspace_size,
                       static_cast<long long>(bytes));
}

}  // namespace ioattn::api
