#include "theory/core_bounds.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace

BoundSet core_bounds(const CoreProblem& core, index_t M) {
  const double words = double(M), d = core.d, e = core.e;
  const double values = core.needs_p() && !core.tied ? e : 0;
  BoundSet bounds;
  bounds.compulsory = core.compulsory;
  bounds.a2 = segment_bound(core.pairs, block_constant(d + e, d + values), words);
  const double sums = core.one_sum ? d : (core.dK ? d : 0) + (core.dV ? e : 0);
  bounds.b2 = segment_bound(core.pairs,
                            block_constant(d + e + (core.dQ ? d : 0), d + values + sums), words);
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
  for (double BoundSet::*bound : {&BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c}) {
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
  for (double BoundSet::*bound : {&BoundSet::a2, &BoundSet::g3, &BoundSet::b2, &BoundSet::c}) {
    bounds.*bound = bounds.*bound > 0 ? bounds.*bound + core.apart : 0;
  }
  return bounds;
}

}  // namespace ioattn::theory
