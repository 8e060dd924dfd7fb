#pragma once

#include <vector>

#include "instruments/simulators/trace_recorder.hpp"
#include "kernels/registry.hpp"

namespace ioattn::instruments {

// Kernels that record what they touch and then do what others do. Their register tile is that of
// the others: a schedule that is given them runs as it would with those, over the same blocks and
// with the same results, in the order of the register tiles: whole lines of A and B term by term,
// then C. Each thread that calls them records into a recorder of its own, the first thread into the
// first; what threads beyond the last recorder touch is not recorded. Of these one lives at a time.
class TracingKernels {
 public:
  TracingKernels(const kernels::Kernels& traced, const std::vector<TraceRecorder*>& of_threads);
  TracingKernels(const kernels::Kernels& traced, TraceRecorder* recorder)
      : TracingKernels(traced, std::vector<TraceRecorder*>{recorder}) {}
  ~TracingKernels();
  TracingKernels(const TracingKernels&) = delete;
  TracingKernels& operator=(const TracingKernels&) = delete;

  const kernels::Kernels& kernels() const { return kernels_; }

 private:
  kernels::KernelTable<float> f32_;
  kernels::KernelTable<double> f64_;
  kernels::StorageKernels<bf16> storage_of_bf16_;
  kernels::StorageKernels<f16> storage_of_f16_;
  kernels::KernelTable<float> of_bf16_ = {};
  kernels::PairKernels pairs_ = {};
  kernels::Kernels kernels_;
};

}  // namespace ioattn::instruments
