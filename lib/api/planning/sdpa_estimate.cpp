#include "api/planning/sdpa_estimate.hpp"

#include <algorithm>

#include "api/known/other_kernels.hpp"
#include "api/known/wisdom_state.hpp"
#include "api/planning/session.hpp"
#include "api/run_options.hpp"
#include "kernels/registry.hpp"
#include "machine/datapath.hpp"
#include "plan/handicaps.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"
#include "plan/times/kernel_time.hpp"
#include "plan/times/time_parts.hpp"

namespace ioattn::api {
namespace {

// Compares a plan with the same on other instruction sets.
class Comparison {
 public:
  Comparison(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
             const plan::SdpaPlan& plan)
      : request_(request), set_(set), plan_(plan) {
    if (!set) {
      plan::add_rows_of_group(request, &plan_);
      request_.shape = request.shape.with_grouped_rows();
    }
    const plan::TimeParts parts = plan::time_parts(request_, set, plan_, 0);
    words_ = parts.outer_time + parts.inner_time;
  }

  // In multiply-adds of the request's kernels; 0: not known.
  double time(const TileShape& tile, double slower) const {
    plan::SdpaPlan trial = plan_;
    trial.tile = tile;
    const index_t least_columns =
        kernels::find_kernels(tile.isa, machine::datapath_bits())->least_columns(request_.dtype);
    const double of_kernels =
        plan::kernel_time(request_.shape, set_, request_.dtype, trial, least_columns);
    return of_kernels > 0 ? slower * of_kernels + words_ : 0;
  }

 private:
  plan::SdpaRequest request_;
  const std::optional<SdpaSet>& set_;
  plan::SdpaPlan plan_;
  double words_ = 0;
};

// The tile of the instruction set that takes least, beside the request's plan. Gradients are
// weighed as if all were wanted: what else is may not change the bits of one.
TileShape choose_tile(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                      const plan::SdpaPlan& plan, const wisdom::Wisdom& rates, IsaChoice* choice) {
  const std::vector<const kernels::Kernels*> others = other_kernels(request.dtype);
  // What tiles of pairs do to the rate of other kernels is not known.
  if (others.empty() || multiplies_tiles(request.tile.isa)) return request.tile;
  const std::optional<SdpaSet> all =
      set ? std::optional(SdpaSet{.dQ = true, .dK = true, .dV = true}) : set;
  plan::SdpaPlan of_all = plan;
  if (all != set && !plan::make_plan_of(request, all, &of_all, nullptr).is_ok()) {
    return request.tile;
  }
  const Comparison comparison(request, all, of_all);
  const double own = comparison.time(request.tile, 1);
  if (own <= 0) return request.tile;
  TileShape best = request.tile;
  double least = plan::handicap::another_isa;
  for (const kernels::Kernels* kernels : others) {
    const TileShape tile = kernels->tile(request.dtype);
    // Of rates that were measured beside other work one may be short of its best: without wasted
    // lanes none is taken for the faster.
    const double slower = std::max(1., slower_by(rates, request.tile, tile, request.dtype));
    const double time = comparison.time(tile, slower) / own;
    if (time <= 0) continue;
    if (choice != nullptr) {
      choice->trials.push_back(
          {tile.isa, time, are_measured(rates, request.tile, tile, request.dtype)});
    }
    if (time > least) continue;
    least = time;
    best = tile;
  }
  return best;
}

}  // namespace

Status estimate_sdpa(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                     const RunOptions& options, plan::SdpaPlan* plan, plan::Estimate* estimate,
                     plan::SdpaRequest* made, IsaChoice* choice) {
  if (made != nullptr) *made = request;
  if (choice != nullptr) *choice = {request.tile.isa, {{request.tile.isa}}};
  const Status status = plan::make_plan_of(request, set, plan, estimate);
  if (!status.is_ok() || !takes_wisdom(options) || (set && set->is_empty())) return status;
  const TileShape tile = choose_tile(request, set, *plan, WisdomReading()->wisdom, choice);
  if (tile == request.tile) return status;
  plan::SdpaRequest other = request;
  other.tile = tile;
  other.price = price_of(options, tile.isa, request.dtype);
  if (choice != nullptr) choice->chosen = tile.isa;
  if (made != nullptr) *made = other;
  return plan::make_plan_of(other, set, plan, estimate);
}

}  // namespace ioattn::api
