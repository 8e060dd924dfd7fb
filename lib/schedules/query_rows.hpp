#pragma once

#include "schedules/row_stream.hpp"

// What backward passes keep of dO, O and LSE per block of query rows.
namespace ioattn::schedules::row_stream {

// delta_I = rowsum(O_I o dO_I) becomes resident while O streams by o rows; dO_I is.
template <class T>
void make_delta(const Trace& trace, const QueryLayout& layout, const BackwardTask<T>& task,
                const Range& rows, T* delta);

// G_I = dO_I Y^T, transposed in panels, becomes resident while Y streams by w rows.
template <class T>
void project_gradients(const Trace& trace, const QueryLayout& layout, const BackwardTask<T>& task,
                       const Range& rows, const T* d_o_panels, T* g_panels);

// A vector over the rows as the lanes of their panels.
template <class T>
void load_lanes(const kernels::KernelTable<T>& kernels, const QueryLayout& layout, const T* values,
                const Range& rows, T* lanes);

}  // namespace ioattn::schedules::row_stream
