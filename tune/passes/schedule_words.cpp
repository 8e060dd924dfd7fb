#include "tune/passes/schedule_words.hpp"

#include <algorithm>

#include "plan/layer/planner.hpp"
#include "theory/crossovers.hpp"

namespace ioattn::tune {
namespace {

std::optional<index_t> total(const theory::word_level::Cost& cost) {
  return cost ? std::optional<index_t>(cost->total()) : std::nullopt;
}

void keep_least(const std::optional<index_t>& value, std::optional<index_t>* least) {
  if (value && (!*least || *value < **least)) *least = value;
}

ScheduleWords words_of(Pass pass, const plan::Candidate& candidate, const LayerShape& shape,
                       index_t M) {
  ScheduleWords words;
  words.schedule = candidate.schedule;
  words.algorithms = theory::class_of(pass, candidate.schedule);
  words.least_M = candidate.least_M;
  if (candidate.fits) words.planned_words = candidate.cost.total().words();
  words.least_words = total(theory::exact_cost(pass, candidate.schedule, shape, M));
  // Its formula takes one order of work, and blocks need not.
  keep_least(words.planned_words, &words.least_words);
  return words;
}

// The better of two ways to run a schedule: its forms, and with products fused or stored.
void merge(const ScheduleWords& other, ScheduleWords* words) {
  keep_least(other.planned_words, &words->planned_words);
  keep_least(other.least_words, &words->least_words);
  words->least_M = std::min(words->least_M, other.least_M);
}

auto find(const std::vector<ScheduleWords>& list, Schedule schedule) {
  return std::find_if(list.begin(), list.end(),
                      [&](const ScheduleWords& words) { return words.schedule == schedule; });
}

}  // namespace

std::vector<ScheduleWords> schedule_words(Pass pass, const LayerShape& shape, index_t M) {
  plan::LayerRequest request;
  request.pass = pass;
  request.problem.shape = shape;
  request.level = "M";
  request.M = M;
  request.tile = {Isa::scalar, 1, 1};  // no rounding to register tiles
  request.price = plan::price_of(plan::Objective::words);
  std::vector<ScheduleWords> list;
  for (const plan::Candidate& candidate : plan::candidates(request)) {
    ScheduleWords words = words_of(pass, candidate, shape, M);
    const auto known = find(list, words.schedule);
    if (known == list.end()) {
      list.push_back(std::move(words));
    } else {
      merge(words, &list[static_cast<std::size_t>(known - list.begin())]);
    }
  }
  for (ScheduleWords& words : list)
    words.bound = theory::lower_bound(pass, words.algorithms, shape, M);
  return list;
}

std::optional<index_t> least_words(const std::vector<ScheduleWords>& list, Pass pass,
                                   Schedule schedule, const LayerShape& shape, index_t M) {
  const auto known = find(list, schedule);
  if (known != list.end()) return known->least_words;
  return total(theory::exact_cost(pass, schedule, shape, M));
}

}  // namespace ioattn::tune
