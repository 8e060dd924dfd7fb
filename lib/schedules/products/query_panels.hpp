#pragma once

#include "base/layer_inputs.hpp"
#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/pair_product.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/trace.hpp"

// What the passes over rows of queries share: the rows as packed panels, score tiles, and the
// h-form's product.
namespace ioattn::schedules {

// How a block of query rows lies in memory: sub-blocks of rho rows, each in panels of nr lanes, so
// that a score tile of a sub-block reads whole panels whatever rho is.
struct QueryLayout {
  index_t rho, nr;

  index_t sub_lanes() const { return round_up(rho, nr); }
  index_t lanes(index_t rows) const { return ceil_div(rows, rho) * sub_lanes(); }
  index_t sub(index_t row) const { return row / rho; }  // row is a multiple of rho
  // First element of a sub-block of a [width x rows] matrix, and of a vector over the rows.
  index_t panel_offset(index_t row, index_t width) const { return sub(row) * sub_lanes() * width; }
  index_t lane_offset(index_t row) const { return sub(row) * sub_lanes(); }
};

// Row block of a pass, for a number of threads. More threads get smaller blocks, in multiples of
// rho: every sum over queries is taken per rho rows, so results do not depend on it.
index_t rows_per_block(const LayerShape& shape, const Blocks& blocks, const Workers& workers);

// panels[sub][nr panels][width][nr] = scale * rows [first, first + rows) of a row-major matrix,
// transposed.
template <class S>
void pack_rows(const kernels::KernelTable<Compute<S>>& kernels, const QueryLayout& layout,
               const MatrixView<const S>& matrix, const Range& rows, Compute<S>* panels,
               Compute<S> scale = 1) {
  for (Range sub(rows.size(), layout.rho); sub; sub.next()) {
    load_panels(kernels, matrix.row(rows.begin + sub.begin), matrix.stride, 1, sub.size(),
                matrix.cols, panels + layout.panel_offset(sub.begin, matrix.cols), scale);
  }
}

// Columns `cols` of the product of packed rows [rows x depth] with [depth x width], in panels; B
// are these columns of the second factor.
template <class T>
void multiply_rows(const kernels::KernelTable<T>& kernels, const QueryLayout& layout, index_t rows,
                   const T* panels, index_t depth, const Factor<const T>& b, const Range& cols,
                   index_t width, T* result);

// S_I = A1_I X, transposed in panels: A1_I is read, X streams by blocks of w columns. X in 16 bits
// is copied.
template <class S>
void project_queries(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                     const QueryLayout& layout, const LayerInputs<S>& in, const Range& rows,
                     index_t w, Compute<S>* a1_panels, Compute<S>* s_panels, Compute<S>* copy);

// tile[key][query] = the product of the rows of `keys` with a sub-block of packed query rows of the
// same width. Its tile may be written over whole panels.
template <class T>
kernels::Product<T> score_product(const QueryLayout& layout, const MatrixView<const T>& keys,
                                  const T* query_panels, const Range& sub,
                                  const kernels::ScoreTile<T>& tile);

// The product h = A3 Y of the h-form, in parallel over blocks of rows. P: of h in memory.
template <class S, class P = Compute<S>>
class ValueProjection {
 public:
  using T = Compute<S>;

  ValueProjection(const LayerShape& shape, const Blocks& blocks, index_t nr, int threads,
                  WorkspaceLayout* layout);
  void run(const kernels::KernelTable<T>& kernels, const Trace& trace, const LayerInputs<S>& in,
           void* workspace) const;
  MatrixView<const P> h(void* workspace) const;

 private:
  index_t m_, e_;
  index_t stride_ = 0;
  Slot<P> h_;
  ThinProduct<S, P> product_;
};

}  // namespace ioattn::schedules
