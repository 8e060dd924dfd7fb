#pragma once

#include <optional>
#include <string_view>

#include "api/price.hpp"
#include "base/layer_inputs.hpp"
#include "base/problem.hpp"
#include "base/status.hpp"
#include "kernels/registry.hpp"
#include "plan/planner.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::api {

// What a plan minimises: estimated time, or words that cross a level, which then decides.
enum class Objective : std::uint8_t { time, words_l1, words_l2 };
const char* name_of(Objective objective);  // "time", "words@L1", "words@L2"
bool parse_objective(std::string_view name, Objective* objective);
constexpr int level_of(Objective objective, int otherwise) {
  return objective == Objective::time ? otherwise : objective == Objective::words_l1 ? 1 : 2;
}

// What a caller may leave open; the defaults come from the machine and the environment.
struct RunOptions {
  int threads = 0;      // 0: all usable ones
  int cache_level = 2;  // decides unless M is given, or the objective names one
  index_t M = 0;        // words, exact; 0: of the cache level
  index_t memory_limit_bytes = -1;
  std::optional<Schedule> schedule;
  bool literal = false;
  wisdom::Rigor rigor = wisdom::Rigor::estimate;
  double time_limit_seconds = 0;  // of a search; 0: that of the rigor
  bool reproducible = false;      // no wisdom
  Objective objective = Objective::time;
};

// Where a plan came from.
struct PlanOrigin {
  const char* name = "estimate";                       // or "measure", "patient", "wisdom", "text"
  wisdom::Verdict wisdom = {wisdom::Reason::off, ""};  // fine if there was some of use
};

// Whether wisdom has a say: not where the caller gives M, the level that decides, or another
// objective than time.
bool takes_wisdom(const RunOptions& options);

// What plans are compared by: of time as it was measured, where wisdom has a say; and where that is
// from.
plan::Price price_of(const RunOptions& options, Isa isa, DType dtype);
KnownPrice known_price(const RunOptions& options, Isa isa, DType dtype);

// Whether IOATTN_ISA names an instruction set; then nothing else is used.
bool names_an_isa();
// The kernels that calls use: IOATTN_ISA or the best that the CPU has.
Status selected_kernels(const kernels::Kernels** kernels);

// min(requested, what affinity, now, and the CPU quota leave), at least 1.
int granted_threads(int requested);

// Sizes of 0 cost nothing: blocks are chosen, and costs told, for at least 1.
LayerShape shape_to_plan(LayerShape shape);

// Words of L3 that blocks may be held in where L2 decides and is too small for the fastest ones; 0
// without L3. At most untrusted_outer_bytes in a virtual machine, which may tell the size of an L3
// of which it has a part.
inline constexpr index_t untrusted_outer_bytes = index_t(4) << 20;
index_t outer_fast_memory(DType dtype);

// What a plan for a dtype may take.
Status find_resources(DType dtype, const RunOptions& options, plan::Resources* resources);

// What the planner is asked, for shape_to_plan.
Status plan_request(Pass pass, LayerProblem problem, const RunOptions& options,
                    plan::PlanRequest* request);

// The plan of one pass; *request and *chosen, if not null, tell how it came about.
Status plan_pass(Pass pass, const LayerProblem& problem, const RunOptions& options,
                 plan::Plan* plan, plan::PlanRequest* request = nullptr,
                 plan::Candidate* chosen = nullptr);

// f(S(), G()) for the types of a problem's arrays and of its gradients.
template <class F>
auto with_gradient_types(DType dtype, bool in_f32, const F& f) {
  return with_dtype(dtype, [&](auto zero) {
    using S = decltype(zero);
    if constexpr (is_half_storage<S>) {
      if (in_f32) return f(zero, float());
    }
    return f(zero, zero);
  });
}

template <class T>
LayerProblem problem_of(const LayerInputs<T>& inputs) {
  return {shape_of(inputs), dtype_of<T>::value, inputs.batch, inputs.scale};
}

}  // namespace ioattn::api
