#pragma once

#include <span>

#include "api/sdpa.hpp"

// A packed batch: sequences of several lengths follow each other in the rows of every head. Each is
// planned and computed as if it were alone, so its bits do not depend on the others.
namespace ioattn::api {

// One sequence: a problem with batch = 1, and where its rows begin in the packed arrays.
struct Sequence {
  SdpaProblem problem;
  index_t first_query = 0, first_key = 0;
};

// As sdpa_forward and sdpa_backward, of all sequences; tensors have batch = 1 and all packed rows.
// Long sequences are taken one after the other by all threads, the others are shared out.
template <class S>
Status packed_forward(std::span<const Sequence> sequences, const RunOptions& options,
                      const SdpaInputs<S>& inputs, TensorView<S> o, TensorView<Compute<S>> lse);
template <class S, class G>
Status packed_backward(std::span<const Sequence> sequences, const RunOptions& options,
                       const SdpaInputs<S>& inputs, const SdpaForwardResults<S>& forward,
                       const SdpaGradients<G>& gradients);

}  // namespace ioattn::api
