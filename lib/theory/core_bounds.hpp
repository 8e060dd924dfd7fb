#pragma once

#include "theory/bounds.hpp"

namespace ioattn::theory {

// The core of attention, backward: E = Q K^T, f, q = dO V^T, p, and any of dQ = p K, dK = p^T Q,
// dV = f^T dO, where Q, K, V and dO are in slow memory. SDPA is that, and so is a pass over the
// keys, whose Q is S and whose V and dO are h and dO or A3 and G. Sums over independent problems:
// pairs, queries (of a group, those of all its heads) and keys.
struct CoreProblem {
  double pairs = 0, d = 0, e = 0;
  bool tied = false;  // K and V are one memory, of d = e columns
  bool dQ = false, dK = false, dV = false;
  bool p_wanted = false;  // where none of dQ and dK is: dBias
  bool one_sum = false;   // dK + dV is one output
  double compulsory = 0;  // of this problem, everything in it
  double apart = 0;       // words that are moved at least once and serve no pair's row or column
  double written = 0;     // words of p that are written as outputs

  bool needs_p() const { return dQ || dK || p_wanted; }
};
BoundSet core_bounds(const CoreProblem& core, index_t M);

// The same forward: E and O = f V.
struct CoreForward {
  double pairs = 0, d = 0, e = 0;
  double compulsory = 0, apart = 0;
};
BoundSet core_bounds(const CoreForward& core, index_t M);

}  // namespace ioattn::theory
