#include "tune/traffic/traffic_case.hpp"

#include "tune/options/options.hpp"

namespace ioattn::tune {

std::unique_ptr<TrafficCase> text_case(Pass pass, const std::string& problem) {
  return is_sdpa(problem) ? sdpa_case(pass, sdpa_of(problem))
                          : layer_case(pass, layer_problem(problem, {}, {}));
}

}  // namespace ioattn::tune
