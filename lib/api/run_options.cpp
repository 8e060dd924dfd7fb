#include "api/run_options.hpp"

#include "base/parse.hpp"

namespace ioattn::api {

const char* name_of(Objective objective) {
  return objective == Objective::time       ? "time"
         : objective == Objective::words_l1 ? "words@L1"
                                            : "words@L2";
}

bool parse_objective(std::string_view name, Objective* objective) {
  return parse_name(name, {Objective::time, Objective::words_l1, Objective::words_l2}, objective);
}

bool takes_wisdom(const RunOptions& options) {
  return options.M == 0 && options.cache_level == 2 && !options.reproducible &&
         options.objective == Objective::time;
}

}  // namespace ioattn::api
