#pragma once

#include <optional>
#include <vector>

#include "base/problem.hpp"
#include "base/schedule.hpp"

// Where one schedule begins to move fewer words than another, in M / d^2.
namespace ioattn::theory {

// Words per pair of the best blocks as n = m and d grow with mu = M / d^2 fixed and dv = d: the
// leading terms of the table in README.md. No value where the schedule does not fit, or has none.
std::optional<double> leading_cost(Pass pass, Schedule schedule, Tie tie, double mu);

// For less than `mu` the first schedule moves fewer words, for more the second.
struct Crossover {
  Schedule below, above;
  double mu;
};
// Of every two schedules, from 1/256 to 64, in the order of the schedules; two may cross twice.
std::vector<Crossover> crossovers(Pass pass, Tie tie);

// The same by exact costs at word level, within 25% of the leading terms': n, d, and the first M
// from which `above` is cheaper. No value where it is there at once or not at all.
std::optional<double> measured_crossover(Pass pass, Tie tie, const Crossover& of, index_t n,
                                         index_t d);

}  // namespace ioattn::theory
