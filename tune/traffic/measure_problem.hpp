#pragma once

#include "tune/text/report_json.hpp"
#include "tune/traffic/measure_options.hpp"

namespace ioattn::tune {

struct ProblemMeasured {
  std::string text;
  Json json;
};

// A pass at each level, and at each M of the sweep: bound, formula, count and, as asked, simulated
// caches and hardware counters. Writes the page of --html.
ProblemMeasured measure_problem(const MeasureOptions& options, CounterSetup* setup);

}  // namespace ioattn::tune
