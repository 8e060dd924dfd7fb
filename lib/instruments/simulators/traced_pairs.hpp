#pragma once

#include "instruments/simulators/traced_product.hpp"

// What products of pairs, and what makes their operands, touch: rows as wide as registers, in the
// order of kernels/generic/x86_bf16_pairs.hpp.
namespace ioattn::instruments {

// Kernels that record into what `recorder_of_thread` returns in their thread, if that is not null.
kernels::PairKernels traced_pairs(const kernels::PairKernels& traced, const TileShape& tile,
                                  TraceRecorder* (*recorder_of_thread)());

}  // namespace ioattn::instruments
