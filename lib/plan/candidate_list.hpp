#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/candidate.hpp"

// What searches compare, of either problem.
namespace ioattn::plan {

inline constexpr std::size_t most_candidates = 200;
inline constexpr double hopeless = 3;  // times the estimate's time

// In eighths of the memory of a level; the rest is left to what else wants to be there.
inline constexpr index_t parts_of_memory[] = {8, 6, 4, 3, 2};

// Whether a plan is there already.
template <class Plan>
bool is_listed(const std::vector<PlanCandidate<Plan>>& list, const Plan& plan) {
  return std::any_of(list.begin(), list.end(), [&](const PlanCandidate<Plan>& listed) {
    return listed.plan.blocks == plan.blocks && listed.plan.tile.isa == plan.tile.isa;
  });
}

// Whether what a search would time is worth it: new, and, where time decides, not hopeless beside
// the first, which is the plan that needs no search.
template <class Plan>
bool is_worth_timing(const std::vector<PlanCandidate<Plan>>& list, const PlanCandidate<Plan>& one,
                     bool of_words) {
  return (of_words || one.estimate.time <= hopeless * list.front().estimate.time) &&
         !is_listed(list, one.plan);
}

// Most promising first, behind the estimate, and no more than most_candidates.
template <class Plan>
void order_candidates(bool of_words, std::vector<PlanCandidate<Plan>>* list) {
  std::stable_sort(list->begin() + 1, list->end(), [=](const auto& a, const auto& b) {
    const index_t of_a = a.estimate.cost.total().words(), of_b = b.estimate.cost.total().words();
    if (of_words && of_a != of_b) return of_a < of_b;
    return a.estimate.time < b.estimate.time;
  });
  if (list->size() > most_candidates) list->resize(most_candidates);
}

// Adds the candidates of other kernels, which take `slower` times as long for a multiply-add:
// estimates of time are in those of the first.
template <class Plan>
void add_candidates(std::vector<PlanCandidate<Plan>> others, const std::string& kernels,
                    double slower, std::vector<PlanCandidate<Plan>>* list) {
  for (PlanCandidate<Plan>& one : others) {
    one.estimate.time *= slower;
    if (!is_worth_timing(*list, one, false)) continue;
    one.made_from += " on " + kernels;
    list->push_back(std::move(one));
  }
  order_candidates(false, list);
}

}  // namespace ioattn::plan
