#pragma once

#include "base/status.hpp"
#include "schedules/layer/layer_gradients.hpp"

namespace ioattn::schedules {

// The gradients of one entry of a batch, all but dW_Q and dW_K: the phases of base/gradients.hpp,
// one after the other. What several need, S, delta, h or G and U, is computed once and passes
// through memory. dX alone is left to a backward schedule.
template <class S>
Status gradients_of_entry(const GradientTask<S>& task);

}  // namespace ioattn::schedules
