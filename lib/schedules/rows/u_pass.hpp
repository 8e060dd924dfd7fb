#pragma once

#include <optional>

#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/rows/row_pass.hpp"
#include "schedules/rows/stored_scores.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// U = p A2 from S (Products::stored), G or h and delta in memory, into memory or, with
// Products::fused, into dX:
// row_stream: rows of S, G or dO, and U stay, keys and values stream past them.
// q_stored: q passes through memory first; then rows of S and U share one stream of A2.
// half_dim: as q_stored with the inner dimension d in two halves, so that twice as many rows stay:
// the first half of the scores passes through memory, where the second half turns it into p; the
// second half of U comes out of that pass, the first is a product with p. With d = 1 the first half
// is empty and its phases fall away.
template <class S>
class UPass {
 public:
  using T = Compute<S>;

  UPass(Schedule schedule, const BackwardTask<S>& task, int threads, WorkspaceLayout* layout);
  // Phases "q", "scores", that of the schedule's name, "U", as far as they exist.
  void run(const Trace& trace, const StoredProducts<S>& products, void* workspace) const;

 private:
  Schedule schedule_;
  const BackwardTask<S>& task_;
  RowPassKind kind_;
  std::optional<StoredQ<S>> q_;
  StoredScores<T> scores_;    // half_dim: the first half
  ProductPass<T> u_product_;  // half_dim: the first half
  RowPass<S, T> rows_;
};

}  // namespace ioattn::schedules
