#pragma once

#include <new>

#include "base/mask.hpp"
#include "parallel/parallel.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {

// Gates before the rows of U, or dQ, that several workers add to, one behind the other in the order
// of the blocks of keys: [problem][head][block of queries].
class QueryGates {
 public:
  QueryGates() = default;
  // For `rho` rows of n each. Not shared: one worker adds all terms of a row, and there are none.
  QueryGates(bool shared, index_t problems, index_t heads, index_t n, index_t rho,
             WorkspaceLayout* layout)
      : heads_(heads), n_(n), rho_(rho) {
    gates_ = layout->add<parallel::OrderedGate>(shared ? problems * heads * ceil_div(n, rho) : 0);
  }
  bool exist() const { return gates_.count > 0; }

  // Of the rows from `row` on; null if there are none.
  parallel::OrderedGate* at(index_t problem, index_t head, index_t row, void* workspace) const {
    if (!exist()) return nullptr;
    return gates_.in(workspace) + (problem * heads_ + head) * ceil_div(n_, rho_) + row / rho_;
  }

  // Makes those of a head, each open for the first block of c of m keys that one of its rows sees.
  void open(index_t problem, index_t head, const Mask& mask, index_t m, index_t c,
            void* workspace) const {
    for (Range rows(n_, rho_); rows && exist(); rows.next()) {
      const Interval seen = mask.of_any({rows.begin, rows.end}, m);
      auto* gate = new (at(problem, head, rows.begin, workspace)) parallel::OrderedGate;
      gate->pass(seen.begin / c - 1);
    }
  }

 private:
  index_t heads_ = 1, n_ = 0, rho_ = 1;
  Slot<parallel::OrderedGate> gates_;
};

}  // namespace ioattn::schedules
