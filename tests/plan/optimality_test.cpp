// Where a schedule's constant is optimal its plans move at most twice the words of the lower bound
// of its class, in the term that grows with n m: what n alone brings is left out of both. Counts
// equal the formulas that are used here (tests/schedules).

#include <gtest/gtest.h>

#include "plan/layer/planner.hpp"
#include "status_ok.hpp"
#include "theory/bounds.hpp"

namespace ioattn::plan {
namespace {

// f(n) = a n^2 + b n + c: a n^2, but for what rounds up to whole blocks.
template <class F>
double quadratic_term(const F& f, index_t n) {
  return (f(4 * n) - 3 * f(2 * n) + 2 * f(n)) / 6;
}

struct Case {
  Pass pass;
  Schedule schedule;
  Tie tie;
  index_t d, M;
};

// lib/theory/BOUNDS.md: row_stream from M = 9 d^2 on (forward 6; with A2 = A3 half), stationary far
// below d^2, weight_resident far above: at 12 d^2 X and dX are a sixth of M.
bool has_optimal_constant(const Case& c) {
  const index_t square = c.d * c.d, tied = c.tie == Tie::none ? 1 : 2;
  switch (c.schedule) {
    case Schedule::row_stream: return tied * c.M >= (c.pass == Pass::backward ? 9 : 6) * square;
    case Schedule::stationary: return 9 * c.M <= square;
    case Schedule::weight_resident: return c.M >= 12 * square;
    default: return false;
  }
}

double ratio_of(const Case& c, Objective objective) {
  const index_t n = index_t{1} << 17;
  const auto shape = [&](index_t rows) { return LayerShape{rows, rows, c.d, c.d, c.tie, {}}; };
  LayerRequest request;
  request.pass = c.pass;
  request.problem.shape = shape(n);
  request.M = c.M;
  request.schedule = c.schedule;
  request.tile = {Isa::avx2, 6, 16};
  request.price = price_of(objective);
  Plan plan;
  EXPECT_OK(make_plan(request, &plan));
  const double words = quadratic_term(
      [&](index_t rows) {
        return static_cast<double>(
            theory::io_cost(c.pass, c.schedule, shape(rows), plan.blocks).total().words());
      },
      n);
  const double bound = quadratic_term(
      [&](index_t rows) {
        return theory::lower_bound(c.pass, theory::class_of(c.pass, c.schedule), shape(rows), c.M,
                                   1)
            .words;
      },
      n);
  return words / bound;
}

TEST(Optimality, LeadingTermIsWithinTwiceTheBound) {
  int count = 0;
  for (const index_t M : {4096, 6144, 49152, 98304, 196608})
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (const Tie tie : {Tie::none, Tie::kv})
        for (const index_t d : {16, 32, 64, 128, 256, 512, 1024, 2048})
          for (const Schedule schedule :
               {Schedule::row_stream, Schedule::stationary, Schedule::weight_resident}) {
            const Case c = {pass, schedule, tie, d, M};
            if (!exists(schedule, pass) || !has_optimal_constant(c)) continue;
            const double words = ratio_of(c, Objective::words), time = ratio_of(c, Objective::time);
            SCOPED_TRACE(std::string(name_of(schedule)) + " " + name_of(pass) + " " + name_of(tie) +
                         " d=" + std::to_string(d) + " M=" + std::to_string(M));
            EXPECT_FALSE(!(words <= 2.0)) << words;
            EXPECT_FALSE(!(time <= 3.0)) << time;  // longer streamed blocks make kernels faster
            EXPECT_GE(words, 1);
            ++count;
          }
  EXPECT_GE(count, 100);
}

}  // namespace
}  // namespace ioattn::plan
