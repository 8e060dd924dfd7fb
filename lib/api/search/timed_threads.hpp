#pragma once

#include <vector>

#include "parallel/parallel.hpp"
#include "search/sample.hpp"
#include "search/statistics.hpp"

namespace ioattn::api {

// Seconds of work(worker) on one of so many threads that all do it for about so long. Each has a
// clock of its own: one that waits for a CPU does not hold up the others. The work must not throw.
template <class Work>
double seconds_of_threads(int threads, const search::SampleOptions& options, const Work& work) {
  std::vector<double> times(static_cast<std::size_t>(threads), -1);
  auto body = [&](int worker) {
    times[static_cast<std::size_t>(worker)] =
        search::seconds_of_run([&] { work(worker); }, options);
  };
  parallel::run(threads, body);
  std::erase(times, -1);  // of those that the system refused
  return search::median(std::move(times));
}

}  // namespace ioattn::api
