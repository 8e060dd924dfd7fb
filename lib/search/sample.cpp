#include "search/sample.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

namespace ioattn::search {
namespace {

constexpr std::size_t least_samples = 3, most_samples = 500;
constexpr int most_repeats = 1 << 20;

}  // namespace

double steady_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of_run(const std::function<void()>& run, const SampleOptions& options) {
  const auto& now = options.clock;
  const double begin = now();
  run();  // for the caches
  int repeats = 1;
  const auto sample = [&] {
    const double start = now();
    for (int i = 0; i < repeats; ++i) run();
    return now() - start;
  };
  while (repeats < most_repeats && sample() < options.shortest) repeats *= 2;
  std::array<double, most_samples> samples;
  std::size_t taken = 0;
  while (taken < least_samples || (taken < most_samples && now() - begin < options.seconds))
    samples[taken++] = sample() / repeats;
  double* tenth = samples.data() + taken / 10;
  std::nth_element(samples.data(), tenth, samples.data() + taken);
  return *tenth;
}

}  // namespace ioattn::search
