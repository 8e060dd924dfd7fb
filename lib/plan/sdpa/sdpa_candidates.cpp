#include "plan/sdpa/sdpa_candidates.hpp"

#include "plan/blocks/block_search.hpp"
#include "plan/blocks/fast_memory.hpp"

namespace ioattn::plan {
namespace {

struct Neighbour {
  const char* name;
  Blocks SdpaBlocks::*phase;
  index_t Blocks::*size;
};
constexpr Neighbour sizes[] = {
    {"r", &SdpaBlocks::rows, &Blocks::r},       {"c", &SdpaBlocks::rows, &Blocks::c},
    {"rho", &SdpaBlocks::rows, &Blocks::rho},   {"w", &SdpaBlocks::rows, &Blocks::w},
    {"keys' c", &SdpaBlocks::keys, &Blocks::c}, {"keys' rho", &SdpaBlocks::keys, &Blocks::rho},
    {"keys' w", &SdpaBlocks::keys, &Blocks::w}};

}  // namespace

Status list_candidates(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                       std::vector<SdpaCandidate>* candidates) {
  SdpaCandidate first;
  first.made_from = "estimate";
  const Status status = make_plan_of(request, set, &first.plan, &first.estimate);
  if (!status.is_ok()) return status;
  candidates->assign(1, first);
  const auto consider = [&](SdpaForm form, bool outer, index_t part) {
    SdpaRequest narrowed = request;
    narrowed.form = form;
    narrowed.outer_only = outer;
    index_t& words = outer ? narrowed.outer_M : narrowed.M;
    words = words / 8 * part;
    if (!outer) narrowed.outer_M = 0;
    SdpaCandidate candidate;
    if (!make_plan_of(narrowed, set, &candidate.plan, &candidate.estimate).is_ok() ||
        !is_worth_timing(*candidates, candidate, request.price.of_words())) {
      return;
    }
    // What it costs at the whole level.
    estimate_costs(request, set, candidate.plan, &candidate.estimate);
    candidate.made_from = std::string(name_of(form)) + " in " + std::to_string(part) + "/8 of " +
                          candidate.plan.level;
    candidates->push_back(std::move(candidate));
  };
  for (const SdpaForm form : {SdpaForm::rows, SdpaForm::one_pass, SdpaForm::tiles}) {
    for (const bool outer : {false, true})
      for (const index_t part : parts_of_memory) {
        // With less memory no plan has fewer words.
        if (request.price.of_words() && part < 8) break;
        if (!outer || request.has_outer()) consider(form, outer, part);
      }
  }
  order_candidates(request.price.of_words(), candidates);
  return Status::ok();
}

std::vector<SdpaCandidate> neighbours(const SdpaRequest& request, const std::optional<SdpaSet>& set,
                                      const SdpaPlan& plan) {
  std::vector<SdpaCandidate> list;
  for (const Neighbour& neighbour : sizes) {
    for (const bool twice : {true, false}) {
      SdpaCandidate candidate;
      candidate.plan = plan;
      index_t& size = (candidate.plan.blocks.*neighbour.phase).*neighbour.size;
      size = twice ? 2 * size : size / 2;
      // Of phases that do not run, and of delta, whose blocks hardly matter, nothing changes.
      const bool of_delta = neighbour.size == &Blocks::w && candidate.plan.blocks.rows.o > 0 &&
                            neighbour.phase == &SdpaBlocks::rows;
      // Nor beyond all of the problem.
      const bool is_whole = twice && size / 2 >= longest_side(request.shape.head());
      if (size < 1 || of_delta || is_whole) continue;
      if (!has_whole_shares(candidate.plan.blocks.keys)) continue;
      take_whole_strips(Schedule::row_stream, request.shape.n, &candidate.plan.blocks.rows);
      estimate_costs(request, set, candidate.plan, &candidate.estimate);
      if (candidate.estimate.cost.total().footprint > candidate.estimate.M) continue;
      candidate.made_from = std::string(twice ? "twice " : "half of ") + neighbour.name;
      list.push_back(std::move(candidate));
    }
  }
  return list;
}

}  // namespace ioattn::plan
