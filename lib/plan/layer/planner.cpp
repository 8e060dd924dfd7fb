#include "plan/layer/planner.hpp"

#include "plan/blocks/blocking.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "plan/layer/intermediates.hpp"
#include "plan/layer/planner_levels.hpp"

namespace ioattn::plan {

index_t batch_scratch_words(const LayerProblem& problem, bool dx, bool dy) {
  const index_t d = problem.shape.d;
  index_t words = problem.scale == 1 ? 0 : d * d;
  if (problem.batch > 1) words += (dx ? d * d : 0) + (dy ? d * problem.shape.dv : 0);
  return words;
}

namespace {

// O of a product that is made in f32 and rounded.
index_t words_to_round(const LayerRequest& request, const Variant& variant) {
  const LayerShape& shape = request.problem.shape;
  const bool rounds = is_half(request.problem.dtype) && request.pass == Pass::forward;
  return rounds && variant.form == Form::g && variant.products == Products::stored
             ? shape.n * shape.dv
             : 0;
}

// Without its blocks and what depends on them.
Candidate outline(const LayerRequest& request, const Variant& variant) {
  const Schedule schedule = variant.schedule;
  const LayerShape& shape = request.problem.shape;
  Candidate result;
  result.schedule = schedule;
  result.blocks.form = variant.form;
  result.blocks.products = variant.products;
  result.least_M =
      theory::resident_words(request.problem.dtype) * least_fast_memory(variant, shape);
  const bool literal = request.literal && schedule == Schedule::paper_large;
  result.fits = literal || request.M >= result.least_M;
  result.scratch_bytes = scratch_bytes(request, variant);
  result.within_memory_limit = request.memory_limit_bytes < 0
                                   ? !stores_scores(schedule)
                                   : result.scratch_bytes <= request.memory_limit_bytes;
  return result;
}

void complete(const LayerRequest& request, Candidate* c) {
  const LayerShape& shape = request.problem.shape;
  const Variant variant = variant_of(request.pass, c->schedule, c->blocks);
  c->fits = choose_blocks(variant, request.literal, shape, request.memory(false).M, request.tile,
                          &c->blocks, request.price);
  if (!c->fits) return;
  c->cost = theory::io_cost(request.pass, c->schedule, shape, c->blocks, request.weights());
  c->fma = theory::fma_count(request.pass, c->schedule, shape, c->blocks);
}

std::vector<Candidate> outlines(const LayerRequest& request) {
  std::vector<Candidate> list;
  for (const Variant& v : variants()) {
    if (v.pass != request.pass) continue;
    if (request.schedule && v.schedule != *request.schedule) continue;
    if (request.problem.shape.mask.hides() && !takes_masks(v.schedule)) continue;
    if (!takes_dtype(v.schedule, request.problem.dtype, request.tile.isa)) continue;
    list.push_back(outline(request, v));
  }
  return list;
}

// Asking for a schedule by name is asking for its scratch memory, unless a limit was given.
bool is_allowed(const LayerRequest& request, const Candidate& c) {
  return c.within_memory_limit || (request.schedule && request.memory_limit_bytes < 0);
}

// `storing`: what would fit with more scratch memory, if anything does.
Status too_small(const LayerRequest& request, const char* what, index_t least,
                 const Candidate* storing) {
  const auto M = static_cast<long long>(request.M), least_M = static_cast<long long>(least);
  if (storing == nullptr) {
    return Status::error(StatusCode::fast_memory_too_small,
                         "M = %lld words is too small for %s (%s pass): the least is %lld", M, what,
                         name_of(request.pass), least_M);
  }
  return Status::error(StatusCode::fast_memory_too_small,
                       "M = %lld words is too small for %s (%s pass): the least is %lld; %s would "
                       "do, with %lld bytes of scratch memory",
                       M, what, name_of(request.pass), least_M, name_of(storing->schedule),
                       static_cast<long long>(storing->scratch_bytes));
}

}  // namespace

index_t scratch_bytes(const LayerRequest& request, const Variant& variant) {
  LayerProblem problem = request.problem;
  if (scales_scores(variant.schedule, is_half(problem.dtype))) problem.scale = 1;
  return request.beside_bytes + intermediates(variant, problem.shape, problem.dtype).bytes() +
         (batch_scratch_words(problem, request.pass == Pass::backward, false) +
          words_to_round(request, variant)) *
             bytes_of_sum(problem.dtype);
}

std::vector<Candidate> offered(const LayerRequest& request, bool outer) {
  std::vector<Candidate> list;
  if (outer && !request.has_outer()) return list;
  for (Candidate c : outlines(request)) {
    if (!c.fits || !is_allowed(request, c)) continue;
    if (outer && !may_be_outer(request.pass, c)) continue;
    complete(request, &c);
    if (c.fits) list.push_back(outer ? held_in_outer(request, c) : c);
  }
  return list;
}

std::vector<Candidate> candidates(const LayerRequest& request) {
  std::vector<Candidate> list = outlines(request);
  for (Candidate& c : list) complete(request, &c);
  return list;
}

Status make_plan(const LayerRequest& request, Plan* plan, Candidate* chosen) {
  if (request.schedule) {
    const Schedule schedule = *request.schedule;
    Status status = check_pass(schedule, request.pass);
    if (status.is_ok()) status = check_masked(schedule, request.problem.shape.mask.hides());
    if (status.is_ok()) status = check_dtype(schedule, request.problem.dtype, request.tile.isa);
    if (!status.is_ok()) return status;
  }
  std::vector<Candidate> list = outlines(request);
  // Multiply-adds and words do not tell how fast tiles are, which depends on their sides, nor that
  // the paper's schedules, as printed, take twice the time of others.
  const auto rank = [&](const Candidate& c) {
    if (request.price.of_words()) return 0;
    return is_papers(c.schedule) ? 2 : c.schedule == Schedule::tile_fused ? 1 : 0;
  };
  const Candidate* best = nullptr;
  const Candidate* smallest = nullptr;
  const Candidate* storing = nullptr;  // that would fit, were its scratch memory allowed
  for (Candidate& c : list) {
    if (!is_allowed(request, c)) {
      if (c.fits && (storing == nullptr || c.scratch_bytes < storing->scratch_bytes)) storing = &c;
      continue;
    }
    if (smallest == nullptr || c.least_M < smallest->least_M) smallest = &c;
    if (!c.fits) continue;
    complete(request, &c);
    const bool is_better =
        best == nullptr || rank(c) < rank(*best) ||
        (rank(c) == rank(*best) && estimated_time(request, c) < estimated_time(request, *best));
    if (is_better) best = &c;
  }
  if (best == nullptr) {
    if (smallest == nullptr || (storing != nullptr && request.memory_limit_bytes >= 0)) {
      return Status::error(StatusCode::memory_limit,
                           "%s for M = %lld words (%s pass) needs %s %lld bytes of scratch memory",
                           request.schedule ? name_of(*request.schedule) : "no schedule",
                           static_cast<long long>(request.M), name_of(request.pass),
                           request.schedule ? "more than" : "at most",
                           static_cast<long long>(request.memory_limit_bytes));
    }
    const char* any = request.memory_limit_bytes < 0 ? "any schedule that stores no scores"
                                                     : "any schedule within the memory limit";
    return too_small(request, request.schedule ? name_of(*request.schedule) : any,
                     smallest->least_M, storing);
  }
  const Candidate taken = fastest(request, *best, list);
  *plan = {taken.is_outer ? outer_level : request.level, taken.schedule, taken.blocks,
           request.tile};
  if (chosen != nullptr) *chosen = taken;
  return Status::ok();
}

}  // namespace ioattn::plan
