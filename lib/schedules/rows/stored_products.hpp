#pragma once

#include <optional>

#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/softmax/delta_pass.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// Which of them are needed; the others take no memory.
struct StoredNeeds {
  bool delta = true, values = true, u = true, dx = true;
};

// The thin products around the scores of a backward pass, as products of their own whose results
// pass through memory: delta = rowsum(O o dO), G = dO Y^T or h = A3 Y, and with Products::stored
// S = A1 X before and dX = A1^T U after the scores. Whoever owns one hands its matrices to a pass
// over rows or columns; all are row-major. P: of S, G and h in memory; where these will be
// multiplied as pairs they are rounded, and S is the sum of two parts. Uses Blocks::o and w (blocks
// of O and dO), s, g, h, x.
template <class S, class P = Compute<S>>
class StoredProducts {
 public:
  using T = Compute<S>;

  // Lays out the matrices in a workspace.
  StoredProducts(const BackwardTask<S>& task, int threads, WorkspaceLayout* layout,
                 const StoredNeeds& needs = {});

  // Phases "delta", "S" (stored) and "G" or "h".
  void run(const Trace& trace, void* workspace) const;
  // Phase "dX" (stored), once U is complete.
  void run_dx(const Trace& trace, void* workspace) const;

  const T* delta(void* workspace) const { return delta_ ? delta_->delta(workspace) : nullptr; }
  // [n, d]; G of the g-form.
  MatrixView<const P> s(void* workspace) const { return rows_of_d(s_, workspace); }
  MatrixView<const P> g(void* workspace) const { return rows_of_d(g_, workspace); }
  MatrixView<T> u(void* workspace) const { return rows_of_d(u_, workspace); }
  // Elements from S to its second part, if it has two.
  index_t rest_of_s() const { return is_half_storage<P> ? task_.shape.n * stride_ : 0; }
  // [m, dv], of the h-form.
  MatrixView<const P> h(void* workspace) const { return values_.h(workspace); }

 private:
  template <class Number>
  MatrixView<Number> rows_of_d(const Slot<Number>& slot, void* workspace) const {
    return {slot.in(workspace), task_.shape.n, task_.shape.d, stride_};
  }

  const BackwardTask<S>& task_;
  StoredNeeds needs_;
  bool stored_, h_form_;
  index_t stride_;   // of S, G, U
  Interval seeing_;  // queries that see a key
  std::optional<DeltaPass<S>> delta_;
  Slot<P> s_, g_;
  Slot<T> u_;
  ThinProduct<S, P> s_product_, g_product_;
  ProductPass<T> dx_product_;
  ValueProjection<S, P> values_;
};

}  // namespace ioattn::schedules
