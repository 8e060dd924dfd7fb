#pragma once

#include <optional>
#include <vector>

#include "plan/layer/planner.hpp"
#include "tune/figure/figure.hpp"

namespace ioattn::tune {

// A cache of which M words are the part that plans may fill, as of L2.
index_t simulated_words(index_t M);

// At each M: the words that a counter finds while schedules run, the best of the paper's that fits
// and the best of all; and those that pass between a fully associative LRU cache of
// simulated_words(M) and memory, line by line, while the plan that the library takes for M words
// runs.
std::vector<PointSeries> measured_points(const LayerShape& shape, const std::vector<index_t>& M);
// The sizes of M at which points are measured: the marks, and one beyond each end of them.
std::vector<index_t> sizes_of_points(const Figure& figure);

// Runs of at most so many multiply-adds per product of size n x n x d.
constexpr index_t most_counted_work = index_t{1} << 32;
// Throws UsageError above.
void check_counted_work(const LayerShape& shape);
// Whether the runs of Table 1 take some seconds.
bool is_soon_counted(const LayerShape& shape);

enum class Author : std::uint8_t { paper, anyone };
// The candidate of the planner with the fewest words, in blocks that are not rounded to register
// tiles; empty if none fits.
struct Contender {
  plan::LayerRequest request;
  plan::Candidate candidate;

  index_t words() const { return candidate.cost.total().words(); }
};
std::optional<Contender> fewest_words(Pass pass, const LayerShape& shape, index_t M, Author author);
// Runs it on zeros under a counter, which is held against the formula.
index_t counted_words(const Contender& contender);

}  // namespace ioattn::tune
