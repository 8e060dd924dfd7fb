#include "theory/core_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "theory/pair_names.hpp"
#include "theory/recomputation_bound.hpp"
#include "theory/segments.hpp"

namespace ioattn::theory {
namespace {

double multiply_adds(const CoreProblem& core) {
  double width = core.d;
  if (core.needs_p()) width += core.e;
  if (core.dQ) width += core.d;
  if (core.dK) width += core.d;
  if (core.dV) width += core.e;
  return core.pairs * width;
}

// Spectral norm of the products that a segment can make of its names. dQ = p K and dK = p^T Q share
// p with each other and operands with the scores: then it is 2/sqrt(3), otherwise 1.
double norm_of(const CoreProblem& core) { return core.dQ && core.dK ? 2 / std::sqrt(3.0) : 1; }

// V has no part where p has none.
bool shares_keys(const CoreProblem& core) { return core.tied && core.needs_p(); }

double c_of(const CoreProblem& core, double M) {
  // E and f, q and p are one name each; not where K and V are one matrix.
  double names = core.needs_p() ? 2 : 1;
  if (shares_keys(core)) names = core.dV ? 4 : 3;
  return colour_bound(multiply_adds(core), norm_of(core), names * core.pairs, M) + core.written;
}

double g3_of(const CoreProblem& core, double M) {
  const bool tied = shares_keys(core);
  Recomputed work;
  work.scores = core.pairs * core.d;
  work.others = multiply_adds(core) - work.scores;
  work.width = core.needs_p() ? std::min(core.d, core.e) : core.d;
  if (!core.needs_p()) return recomputation_bound(work, weigh_forward, M);
  if (!(core.dQ && core.dK) && !core.dV) {
    return recomputation_bound(work, tied ? weigh_backward_tied : weigh_backward, M);
  }
  // A word of E may be a name of f too, and one of p a name of q where E has a name as well.
  const double names = !tied ? 1 : core.dV ? 2 : 1.5;
  const double norm = norm_of(core);
  return recomputation_bound(work, Weighing{1, names * norm * norm, 1}, M);
}

// Which row operands (Q, dO, dQ) meet which column operands (K, V, dK, dV) in a family.
using Families = std::array<std::array<int, 4>, 3>;
Families families_of(const CoreProblem& core) {
  Families meet = {};
  const bool tied = shares_keys(core);
  meet[0][0] = 1;
  if (core.needs_p()) meet[1][tied ? 0 : 1] = 1;
  if (core.dQ) meet[2][0] = 1;
  if (core.dK) meet[0][2] = 1;
  if (core.dV) meet[1][core.one_sum ? 2 : 3] = 1;
  return meet;
}

// The spectral norm of that matrix, from above: powers of its square, whose ratios bound it
// (Collatz and Wielandt).
double norm_of(const Families& meet) {
  std::array<double, 3> v = {1, 1, 1};
  double largest = 0;
  for (int step = 0; step < 60; ++step) {
    std::array<double, 4> columns = {};
    std::array<double, 3> next = {};
    for (std::size_t j = 0; j < 4; ++j) {
      for (std::size_t i = 0; i < 3; ++i) columns[j] += meet[i][j] * v[i];
      for (std::size_t i = 0; i < 3; ++i) next[i] += meet[i][j] * columns[j];
    }
    largest = 0;
    for (std::size_t i = 0; i < 3; ++i) largest = std::max(largest, next[i] / v[i]);
    for (std::size_t i = 0; i < 3; ++i) v[i] = next[i] > 0 ? next[i] / largest : 1;
  }
  return std::sqrt(largest);
}

// Families that share no operand but one pair of them are as in dX, where less is lost.
double b3_of(const CoreProblem& core, double whole, double M) {
  PairWork work;
  work.multiply_adds = multiply_adds(core);
  work.whole = whole;
  work.rate = norm_of(families_of(core)) / 2;
  if (core.dQ != core.dK && !core.dV && !core.tied) {
    work.rate_of_named = work.rate;
    work.rate -= (std::sqrt(2.0) - 1) * std::min(core.d, core.e) / std::sqrt(whole);
  }
  return pair_names_bound(work, M);
}

}  // namespace

BoundSet core_bounds(const CoreProblem& core, index_t M) {
  const double words = double(M), d = core.d, e = core.e;
  const double values = core.needs_p() && !core.tied ? e : 0;
  BoundSet bounds;
  bounds.compulsory = core.compulsory;
  bounds.a2 = segment_bound(core.pairs, block_constant(d + e, d + values), words);
  if (core.needs_p()) {
    const Zones zones = core.tied ? Zones::keys_shared : Zones::apart;
    bounds.a3 = half_touched_bound(core.pairs, std::min(d, e), zones, words);
  }
  const double sums = core.one_sum ? d : (core.dK ? d : 0) + (core.dV ? e : 0);
  const double whole = block_constant(d + e + (core.dQ ? d : 0), d + values + sums);
  bounds.b2 = segment_bound(core.pairs, whole, words);
  bounds.b3 = b3_of(core, whole, words);
  // What holds for some of the outputs holds for all: where two together have the larger norm, one
  // may say more.
  for (int kept = 0; kept < 8; ++kept) {
    CoreProblem part = core;
    part.dQ = core.dQ && (kept & 1) != 0;
    part.dK = core.dK && (kept & 2) != 0;
    part.dV = core.dV && (kept & 4) != 0;
    part.p_wanted = core.needs_p() && part.p_wanted;
    bounds.g3 = std::max(bounds.g3, g3_of(part, words));
    bounds.c = std::max(bounds.c, c_of(part, words));
  }
  for (double BoundSet::*bound :
       {&BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c, &BoundSet::b3, &BoundSet::a3}) {
    bounds.*bound = bounds.*bound > 0 ? bounds.*bound + core.apart : 0;
  }
  return bounds;
}

BoundSet core_bounds(const CoreForward& core, index_t M) {
  const double words = double(M), both = core.d + core.e;
  const double multiply_adds = core.pairs * both;
  BoundSet bounds;
  bounds.compulsory = core.compulsory;
  bounds.a2 = segment_bound(core.pairs, block_constant(core.d, both), words);
  Recomputed work;
  work.scores = core.pairs * core.d;
  work.others = core.pairs * core.e;
  work.width = core.d;
  bounds.g3 = recomputation_bound(work, weigh_forward, words);
  bounds.b2 = segment_bound(core.pairs, block_constant(both, both), words);
  bounds.c = colour_bound(multiply_adds, 1, core.pairs, words);
  bounds.b3 = pair_names_bound({multiply_adds, block_constant(both, both), 0, 0.5, 0}, words);
  for (double BoundSet::*bound :
       {&BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c, &BoundSet::b3}) {
    bounds.*bound = bounds.*bound > 0 ? bounds.*bound + core.apart : 0;
  }
  return bounds;
}

}  // namespace ioattn::theory
