#include "tune/traffic_case.hpp"

#include "base/problem_text.hpp"
#include "tune/command_error.hpp"
#include "tune/options.hpp"

namespace ioattn::tune {

std::unique_ptr<TrafficCase> text_case(Pass pass, const std::string& problem) {
  if (problem.rfind("sdpa:", 0) != 0) return layer_case(pass, layer_problem(problem, {}, {}));
  SdpaProblem sdpa;
  std::string error;
  if (!parse_problem(problem, &sdpa, &error)) throw UsageError(error);
  return sdpa_case(pass, sdpa);
}

}  // namespace ioattn::tune
