#include "api/search/layer_search.hpp"

#include "api/run_options.hpp"

namespace ioattn::api {

LayerProblem timed_problem(const LayerProblem& problem) {
  LayerProblem timed = problem;
  timed.shape = shape_to_plan(problem.shape);
  timed.batch = 1;
  return timed;
}

Status LayerKind::check_search(const RunOptions& options) {
  if (takes_layer_wisdom(options)) return Status::ok();
  return Status::error(StatusCode::unsupported,
                       "a search is for time, with the schedule, M and the level that decides left "
                       "to it");
}

}  // namespace ioattn::api
