#pragma once

#include "instruments/simulators/trace_recorder.hpp"
#include "kernels/registry.hpp"

namespace ioattn::instruments {

// Kernels that record what they touch and then do what others do. Their register tile is that of
// the others: a schedule that is given them runs as it would with those, over the same blocks and
// with the same results. While one of these lives it records what the thread that made it touches,
// in the order of the register tiles: whole lines of A and B term by term, then C.
class TracingKernels {
 public:
  TracingKernels(const kernels::Kernels& traced, TraceRecorder* recorder);
  ~TracingKernels();
  TracingKernels(const TracingKernels&) = delete;
  TracingKernels& operator=(const TracingKernels&) = delete;

  const kernels::Kernels& kernels() const { return kernels_; }

 private:
  kernels::KernelTable<float> f32_;
  kernels::KernelTable<double> f64_;
  kernels::KernelTable<float> of_bf16_;
  kernels::PairKernels pairs_ = {};
  kernels::Kernels kernels_;
};

}  // namespace ioattn::instruments
