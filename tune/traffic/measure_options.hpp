#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/planning/session.hpp"
#include "machine/machine.hpp"
#include "tune/cli_fwd.hpp"
#include "tune/files/layer_files.hpp"
#include "tune/options/options.hpp"
#include "tune/traffic/counter_setup.hpp"

namespace ioattn::tune {

// What `ioattn measure` is asked. Its callbacks refer to this: it may not move once it is added.
struct MeasureOptions {
  std::string problem;
  ShapeOptions shape;
  LayerPaths paths;
  std::optional<DType> dtype;
  Pass pass = Pass::backward;
  std::vector<int> levels = {1, 2};
  std::vector<api::Objective> objectives = {api::Objective::time};
  std::vector<index_t> sweep;

  // Those that a plan for the level may have; time if there is no other.
  std::vector<api::Objective> objectives_at(int level) const;
  bool simulate = false;
  index_t threads = 1;  // that are simulated
  api::RunOptions run;
  CounterOptions counters;
  std::vector<std::string> command;
  std::string output;
  bool perf = false, cachegrind = false, proof = false, show_events = false;
  bool json = false;
  std::string html;
  std::vector<CLI::Option*> of_problem;  // options that nothing else than a problem has

  void add(CLI::App* app);
  void check() const;  // throws UsageError if options contradict each other
};

// Of this machine; throws UsageError where there is none.
const machine::CacheLevel& cache_of(int level);
// What overflows the cache, whatever IOATTN_L1 and the like make of it: the larger of the size that
// they say and that of the hardware. Throws UsageError.
index_t largest_size_bytes(int level);

}  // namespace ioattn::tune
