#pragma once

#include "instruments/simulators/traced_product.hpp"

// What products of pairs, and what makes their operands, touch: rows as wide as registers, in the
// order of kernels/generic/x86_bf16_pairs.hpp.
namespace ioattn::instruments {

class TracedPairs {
 public:
  // The table records into what `recorder` points at while a kernel runs, if that is not null.
  static kernels::PairKernels table(const kernels::PairKernels& traced, const TileShape& tile);
  static void record_into(TraceRecorder* recorder);
};

}  // namespace ioattn::instruments
