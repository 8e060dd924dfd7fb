#pragma once

#include <functional>
#include <string>

#include "api/search/tuner.hpp"
#include "tune/text/report_json.hpp"

// A pass of a problem of either kind, as `ioattn tune` takes it.
namespace ioattn::tune {

// What was found, and among what.
struct JobOutcome {
  api::Found found;
  std::string timed;  // the problem that was
  Json candidates;
  std::string candidates_text;
};

struct TuneJob {
  std::string problem, pass;
  std::function<bool(const api::RunOptions&)> is_needed;
  std::function<JobOutcome(const api::RunOptions&, const api::Watch&)> search;
  std::function<JobOutcome(const api::RunOptions&)> list;  // times nothing
};

// Of a problem's text the passes that are asked for; of the backward pass the gradients of that
// name, "": dQ+dK+dV, of the layer problem dX. Throws UsageError.
std::vector<TuneJob> jobs_of(const std::string& problem, std::optional<Pass> pass,
                             const std::string& gradients);

}  // namespace ioattn::tune
