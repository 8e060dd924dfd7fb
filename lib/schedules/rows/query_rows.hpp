#pragma once

#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// What backward passes keep of dO, O and LSE per block of query rows.
namespace ioattn::schedules {

// delta_I = rowsum(O_I o dO_I) becomes resident while O streams by o rows; dO_I is.
template <class S>
void make_delta(const Trace& trace, const QueryLayout& layout, const BackwardTask<S>& task,
                const Range& rows, Compute<S>* delta);

// G_I = dO_I Y^T, transposed in panels, becomes resident while Y streams by w rows. Y in 16 bits is
// copied.
template <class S>
void project_gradients(const Trace& trace, const QueryLayout& layout, const BackwardTask<S>& task,
                       const Range& rows, const Compute<S>* d_o_panels, Compute<S>* g_panels,
                       Compute<S>* copy = nullptr);

// A vector over the rows as the lanes of their panels.
template <class T>
void load_lanes(const kernels::KernelTable<T>& kernels, const QueryLayout& layout, const T* values,
                const Range& rows, T* lanes);

}  // namespace ioattn::schedules
