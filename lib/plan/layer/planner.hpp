#pragma once

#include <optional>
#include <vector>

#include "base/status.hpp"
#include "plan/blocks/resources.hpp"
#include "plan/plan.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::plan {

// Numbers of scratch memory that a scale and a batch take beside those of one entry: a scaled X,
// and dX and dY of an entry before they are added to the sums.
index_t batch_scratch_words(const LayerProblem& problem, bool dx, bool dy);

// Bytes of a number that is made on the way: of a problem in 16 bits in f32.
inline index_t bytes_of_sum(DType dtype) { return size_of(dtype) * theory::resident_words(dtype); }

struct LayerRequest : Resources {
  Pass pass = Pass::backward;
  LayerProblem problem;
  std::optional<Schedule> schedule;  // nullopt = auto
  bool literal = false;              // paper_large as printed, although it does not fit
  index_t beside_bytes = 0;          // of scratch memory that the pass's results take besides

  bool operator==(const LayerRequest&) const = default;
  FastMemory memory(bool outer) const { return memory_for(problem.dtype, outer); }
  theory::Weights weights() const { return theory::weights_of(problem.dtype, problem.scale != 1); }
  // Of moving a word: one of 16 bits takes half the time, where time decides.
  double per_word() const {
    return is_half(problem.dtype) && !price.of_words() ? price.per_word / 2 : price.per_word;
  }
};

// Scratch memory that a form of a schedule takes, and what the request counts besides.
index_t scratch_bytes(const LayerRequest& request, const Variant& variant);

// One schedule at one M: what it would cost.
struct Candidate {
  Schedule schedule = Schedule::row_stream;
  Blocks blocks;
  bool fits = false;          // false: M is below least_M
  bool is_outer = false;      // held in outer_M
  index_t least_M = 0;        // words from which on the schedule exists
  theory::ScheduleCost cost;  // valid if fits
  index_t fma = 0;            // multiply-adds
  index_t scratch_bytes = 0;  // memory for intermediates such as f and p
  bool within_memory_limit = true;
};

// Every form of every schedule that exists for the pass, or of the one asked for, in the order of
// variants().
std::vector<Candidate> candidates(const LayerRequest& request);

// Those that a plan may be of: they fit, and need no more scratch memory than it may allocate. With
// `outer` blocks are held in outer_M, which only row_stream's and tile_fused's may be.
std::vector<Candidate> offered(const LayerRequest& request, bool outer);
// In multiply-adds; that short blocks make the kernels of row_stream and of tile_fused slower
// counts.
double predicted_time(const LayerRequest& request, const Candidate& candidate);

// The plan: the schedule asked for, or the candidate that costs least at the deciding level (words
// and multiply-adds at the request's price, as lib/plan/README.md says), whose blocks are held in
// L3 where time decides and that is a twentieth faster; then tiles too are held against it by
// their predicted time. Fails with fast_memory_too_small (naming
// the least M that works), memory_limit or unsupported. On success *chosen, if not null, is the
// candidate that became the plan.
Status make_plan(const LayerRequest& request, Plan* plan, Candidate* chosen = nullptr);
// Words of the level at which a plan's blocks are held.
inline index_t words_of_M(const LayerRequest& request, const Candidate& chosen) {
  return chosen.is_outer ? request.outer_M : request.M;
}

}  // namespace ioattn::plan
