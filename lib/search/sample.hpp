#pragma once

#include <functional>

namespace ioattn::search {

struct SampleOptions {
  double seconds = 0.05;          // that all samples may take
  std::function<double()> clock;  // in seconds; null: the steady clock
};

double steady_seconds();

// How long one run takes where little disturbs it: short runs are repeated, so that a sample is
// longer than what clocks cannot tell, and of many samples a tenth were faster. Noise makes a run
// longer, on a busy machine most of them, but the least sample is a lucky shot. At least three
// samples, however long they take.
double seconds_of_run(const std::function<void()>& run, const SampleOptions& options);

}  // namespace ioattn::search
