#pragma once

#include "base/layer_inputs.hpp"
#include "base/schedule.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/blocked_product.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules::paper {

// Phase 1 of the large-cache algorithms (Alg. 7): S = A1 X and h = A3 Y pass through memory. With n
// = m one loop over row blocks makes both, as printed; otherwise two loops.
template <class T>
class Projections {
 public:
  Projections(const LayerShape& shape, const Blocks& blocks, index_t nr);

  // Memory of the pass that follows, of which S and h are a part.
  Slot<T> add(index_t count) { return layout_.add<T>(count); }
  T* at(const Slot<T>& slot) const { return slot.in(buffer_.data()); }

  // After the last add. Fails, before anything else happens, if there is no memory.
  Status run(const kernels::KernelTable<T>& kernels, const Trace& trace, const LayerInputs<T>& in,
             CallerMemory* caller);

  Factor<const T> s() const;
  Factor<const T> h() const;

 private:
  LayerShape shape_;
  Blocks blocks_;
  index_t s_stride_, h_stride_;
  WorkspaceLayout layout_;
  WorkspaceMemory buffer_;
  Slot<T> s_, h_, pack_;
};

// tile[key][query] = sum over `depth` of left[i][q] right[q][j], values only.
template <class T>
void scores(const kernels::KernelTable<T>& kernels, const Factor<const T>& left,
            const Factor<const T>& right, const Range& i, const Range& j, index_t depth,
            const kernels::ScoreTile<T>& tile, T* pack);

}  // namespace ioattn::schedules::paper
