#pragma once

#include <functional>
#include <span>
#include <vector>

#include "api/run/sdpa.hpp"
#include "api/run_options.hpp"

// A packed batch: sequences of several lengths follow each other in the rows of every head. Each is
// planned and computed as if it were alone, so its bits do not depend on the others.
namespace ioattn::api {

// One sequence: a problem with batch = 1, and where its rows begin in the packed arrays; in those
// of a bias its columns begin with its first key.
struct Sequence {
  SdpaProblem problem;
  index_t first_query = 0, first_key = 0;
};

// Sequences of one shape, which have one plan.
struct PackedShape {
  SdpaProblem problem;
  index_t count = 0;   // of sequences
  RunOptions options;  // of the plan: its threads, and its share of the limit of scratch memory
  plan::SdpaPlan plan;
  int threads = 1;
  index_t bytes = 0;  // of workspace, while one of them is computed
};

// Whether the gradients of all of them may have the scratch memory that they take.
Status check_scratch(std::span<const Sequence> sequences, const SdpaSet& set, DType dtype,
                     index_t limit);

// How a packed batch is computed. Long sequences are taken one after the other by all threads, the
// others are shared out. Once planned it never changes: several threads may run it at once.
class PackedWork {
 public:
  PackedWork() = default;
  PackedWork(std::span<const Sequence> sequences, const RunOptions& options);

  // Those with the most work first.
  const std::vector<PackedShape>& shapes() const { return shapes_; }
  int threads() const { return threads_; }
  index_t workspace_bytes() const { return bytes_; }  // exactly, at an aligned address

  // Has plan(i, shape) set the plan, and with it the bytes, of every shape, of several at once.
  using PlanShape = std::function<Status(std::size_t, PackedShape*)>;
  Status plan(const PlanShape& plan);

  // As run_forward and run_backward, of all sequences. Tensors have batch = 1 and all packed rows,
  // those of a bias all columns too. Null memory: the heap.
  template <class S>
  Status forward(const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse,
                 schedules::CallerMemory* memory = nullptr,
                 OverflowCounts* overflows = nullptr) const;
  template <class S, class G>
  Status backward(const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                  const SdpaGradients<G>& gradients, schedules::CallerMemory* memory = nullptr,
                  OverflowCounts* overflows = nullptr) const;

 private:
  struct Job {
    index_t first_query, first_key;
    std::size_t shape;
  };
  template <class Run>
  Status run(schedules::CallerMemory* caller, const Run& run) const;

  std::vector<PackedShape> shapes_;
  std::vector<Job> jobs_;  // by shapes
  int threads_ = 1;
  index_t shared_ = 0;  // bytes of a worker that has a sequence for itself
  index_t bytes_ = 0;
};

// As sdpa_forward and sdpa_backward, of all sequences, planned on the way.
template <class S>
Status packed_forward(std::span<const Sequence> sequences, const RunOptions& options,
                      const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse);
template <class S, class G>
Status packed_backward(std::span<const Sequence> sequences, const RunOptions& options,
                       const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                       const SdpaGradients<G>& gradients);

}  // namespace ioattn::api
