#pragma once

#include <vector>

#include "base/types.hpp"
#include "kernels/registry.hpp"

// What the caches do, beside what they are told to be.
namespace ioattn::api {

// One of so many threads, all of which do the same on so much memory of their own.
struct ProbedSize {
  index_t bytes = 0;          // of each thread
  double access_seconds = 0;  // of a load that has to wait for the one before it
  double stream_seconds = 0;  // of a word of f32 of a stream
};

// From an eighth of the first to four times the last, or 1 KiB and 64 MiB, four to an octave.
std::vector<index_t> probe_sizes(index_t first, index_t last);

// About a fortieth of a second for each size; empty if there is no memory.
std::vector<ProbedSize> probe_caches(const kernels::Kernels& kernels, int threads,
                                     const std::vector<index_t>& sizes);

}  // namespace ioattn::api
