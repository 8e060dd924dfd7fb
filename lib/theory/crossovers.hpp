#pragma once

#include <optional>
#include <vector>

#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "theory/word_level.hpp"

// Where one schedule begins to move fewer words than another, in M / d^2.
namespace ioattn::theory {

// Words per pair of the best blocks as n = m and d grow with mu = M / d^2 fixed and dv = d: the
// leading terms of the table in README.md. No value where the schedule does not fit, or has none:
// naive and resident fit, where they do, whatever M / d^2 is.
std::optional<double> leading_cost(Pass pass, Schedule schedule, Tie tie, double mu);
// What they are the leading terms of: word_level::least_cost, and of tile_fused for dX the less of
// what it moves with both its score tiles resident and with one parked in memory.
word_level::Cost exact_cost(Pass pass, Schedule schedule, const LayerShape& shape, index_t M);

// For less than `mu` the first schedule moves fewer words, for more the second.
struct Crossover {
  Schedule below, above;
  double mu;
};
// Of every two schedules, from 1/256 to 64, in the order of the schedules; two may cross twice.
std::vector<Crossover> crossovers(Pass pass, Tie tie);

// The same by exact costs at word level, for n = m and d: the M from which `above` is cheaper, in
// M / d^2, near the leading terms' (within a tenth, a quarter or a half of it). No value where
// there is none.
std::optional<double> measured_crossover(Pass pass, Tie tie, const Crossover& of, index_t n,
                                         index_t d);

}  // namespace ioattn::theory
