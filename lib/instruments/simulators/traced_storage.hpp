#pragma once

#include "instruments/simulators/trace_recorder.hpp"
#include "kernels/kernel_table.hpp"

// What conversions between 16 bits and f32 touch.
namespace ioattn::instruments {

// Kernels that record into what `current` returns in their thread, if that is not null. One set of
// a type at a time.
template <class S>
kernels::StorageKernels<S> traced_storage(const kernels::StorageKernels<S>& traced, index_t nr,
                                          TraceRecorder* (*current)());

}  // namespace ioattn::instruments
