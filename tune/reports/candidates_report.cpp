#include "tune/reports/candidates_report.hpp"

namespace ioattn::tune {

std::string why_of(const api::PlanOrigin& origin, api::Objective objective) {
  if (objective != api::Objective::time) {
    return "the fewest words; among equals the least predicted time";
  }
  if (origin.wisdom.is_ok()) return "a search found it the fastest";
  const std::string reason =
      std::string(name_of(origin.wisdom.reason)) + ": " + origin.wisdom.message;
  return "the least predicted time, but for what saves too little of it to be sure of; no wisdom "
         "has a say (" +
         reason + ")";
}

}  // namespace ioattn::tune
