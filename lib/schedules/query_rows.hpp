#pragma once

#include "schedules/row_stream.hpp"

// What backward passes over rows of queries keep of dO, O and LSE.
namespace ioattn::schedules::row_stream {

template <class T>
struct GradientRows {
  T* d_o = nullptr;    // panels [lanes][dv]
  T* g = nullptr;      // panels [lanes][d]; h-form: null
  T* delta = nullptr;  // [lanes]
  T* lse = nullptr;    // [lanes]
};

// dO_I, delta_I = rowsum(O_I o dO_I) while O streams by o rows, G_I = dO_I Y^T while Y streams by w
// rows, and LSE_I. What stays resident: delta, LSE, and G or, in the h-form, dO.
template <class T>
void read_gradients(const Trace& trace, const QueryLayout& layout, const BackwardTask<T>& task,
                    const Range& rows, const GradientRows<T>& to);

// The opposite: all of it is no longer resident.
template <class T>
void release_gradients(const Trace& trace, const BackwardTask<T>& task, const Range& rows);

}  // namespace ioattn::schedules::row_stream
