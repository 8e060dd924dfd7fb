#include "search/sample.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace ioattn::search {
namespace {

constexpr double shortest_sample = 2e-4;  // seconds
constexpr std::size_t least_samples = 3, most_samples = 500;
constexpr int most_repeats = 1 << 20;

}  // namespace

double steady_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double seconds_of_run(const std::function<void()>& run, const SampleOptions& options) {
  const auto now = [&] { return options.clock ? options.clock() : steady_seconds(); };
  const double begin = now();
  run();  // for the caches
  int repeats = 1;
  const auto sample = [&] {
    const double start = now();
    for (int i = 0; i < repeats; ++i) run();
    return now() - start;
  };
  while (repeats < most_repeats && sample() < shortest_sample) repeats *= 2;
  std::vector<double> samples;
  while (samples.size() < least_samples ||
         (samples.size() < most_samples && now() - begin < options.seconds)) {
    samples.push_back(sample() / repeats);
  }
  const auto tenth = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 10);
  std::nth_element(samples.begin(), tenth, samples.end());
  return *tenth;
}

}  // namespace ioattn::search
