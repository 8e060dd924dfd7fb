#pragma once

#include <functional>

namespace ioattn::search {

double steady_seconds();
// That the calling thread had a CPU: those of others, which had it meanwhile, are left out.
double thread_seconds();

struct SampleOptions {
  double seconds = 0.05;  // that all samples may take
  std::function<double()> clock = thread_seconds;
  double shortest = 2e-4;  // of a sample
};

// How long one run of the calling thread takes where little disturbs it: short runs are repeated,
// so that a sample is longer than what clocks cannot tell, and of many samples a tenth were faster.
// Noise makes a run longer, on a busy machine most of them, but the least sample is a lucky shot.
// At least three samples, however long they take.
double seconds_of_run(const std::function<void()>& run, const SampleOptions& options);

}  // namespace ioattn::search
