#include "api/planning/session.hpp"

#include <algorithm>
#include <cstdlib>

#include "api/checks/validate.hpp"
#include "api/known/wisdom_state.hpp"
#include "base/parse.hpp"
#include "machine/cgroup.hpp"
#include "machine/machine.hpp"
#include "parallel/parallel.hpp"

namespace ioattn::api {

plan::Price price_of(const RunOptions& options, Isa isa, DType dtype) {
  if (takes_wisdom(options)) return WisdomReading()->price(isa, dtype).price;
  return plan::price_of(options.objective == Objective::time ? plan::Objective::time
                                                             : plan::Objective::words);
}

KnownPrice known_price(const RunOptions& options, Isa isa, DType dtype) {
  if (takes_wisdom(options)) return WisdomReading()->price(isa, dtype);
  KnownPrice known;
  known.price = price_of(options, isa, dtype);
  known.wisdom.message = "the options leave wisdom out";
  return known;
}

int granted_threads(int requested) {
  if (requested == 1) return 1;
  const int usable =
      machine::usable_threads(parallel::available_cpus(), machine::this_machine().cpu_quota);
  return std::max(1, requested <= 0 ? usable : std::min(requested, usable));
}

index_t outer_fast_memory(DType dtype) {
  const machine::Machine& machine = machine::this_machine();
  const machine::CacheLevel* cache = machine.cache(3);
  if (cache == nullptr) return 0;
  const index_t words = machine::fast_memory(*cache, dtype).words;
  if (!machine.virtual_machine || cache->source == machine::Source::override_variable) return words;
  return std::min(words, untrusted_outer_bytes / size_of(dtype));
}

Status find_resources(DType dtype, const RunOptions& options, plan::Resources* resources) {
  const kernels::Kernels* kernels = nullptr;
  const Status selected = selected_kernels(&kernels);
  if (!selected.is_ok()) return selected;
  resources->memory_limit_bytes = options.memory_limit_bytes;
  resources->tile = kernels->tile(dtype);
  resources->tile_only = names_an_isa();
  resources->price = price_of(options, resources->tile.isa, dtype);
  if (options.M > 0) {
    resources->level = "M";
    resources->M = options.M;
    return Status::ok();
  }
  const int level = level_of(options.objective, options.cache_level);
  const machine::CacheLevel* cache = machine::this_machine().cache(level);
  if (cache == nullptr) {
    return Status::error(StatusCode::unsupported, "no L%d cache was found", level);
  }
  resources->level = {'L', static_cast<char>('0' + level)};
  resources->M = machine::fast_memory(*cache, dtype).words;
  if (level == 2) resources->outer_M = outer_fast_memory(dtype);
  return Status::ok();
}

Status plan_request(Pass pass, LayerProblem problem, const RunOptions& options,
                    plan::LayerRequest* request) {
  const Status valid = validate_problem(problem);
  if (!valid.is_ok()) return valid;
  problem.shape = shape_to_plan(problem.shape);
  request->pass = pass;
  request->problem = problem;
  request->schedule = options.schedule;
  request->literal = options.literal;
  return find_resources(problem.dtype, options, request);
}

Status plan_pass(Pass pass, const LayerProblem& problem, const RunOptions& options,
                 plan::Plan* plan, plan::LayerRequest* request, plan::Candidate* chosen) {
  plan::LayerRequest own;
  if (request == nullptr) request = &own;
  const Status status = plan_request(pass, problem, options, request);
  return status.is_ok() ? plan::make_plan(*request, plan, chosen) : status;
}

}  // namespace ioattn::api
