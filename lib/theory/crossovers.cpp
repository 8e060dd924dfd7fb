#include "theory/crossovers.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::theory {
namespace {

constexpr double least_mu = 1.0 / 256, most_mu = 64, step = 1.002;

// A product of n x m by m x d in tiles of M words, d / k columns each: k passes over n x m, and
// x^2 / k words a pair of the other factor. That is 2 x where x is an integer.
double narrow_product(double x) {
  const double k = std::max(1.0, std::floor(x));
  return std::min(k + x * x / k, k + 1 + x * x / (k + 1));
}
// The same in the paper's tiles of M / 4 words, of which d takes a whole number.
double narrow_product_of_paper(double x) { return std::ceil(2 * x) + 2 * x; }

// The largest block, in units of d, with which the paper's second phase fits beside dX: B_r and B_c
// rows of S, A1, dO and of A2, T and h. B_r is at most d.
double paper_large_block(double mu) {
  const double small = (std::sqrt(21 + 4 * mu) - 5) / 2;  // 1 + 5 b + b^2 = mu
  const double large = (std::sqrt(1 + 3 * mu) - 2) / 3;   // 1 + 4 b + 3 b^2 = mu
  return std::min(1.0, small < 0.5 ? small : large);
}

std::optional<double> backward(Schedule schedule, bool tied, double mu) {
  const double x = 1 / std::sqrt(mu);
  const double of_q = std::min(x * x, 2 * x);  // rows are kept, or tiles of q
  switch (schedule) {
    case Schedule::paper_small: return 8 * x + narrow_product_of_paper(x) + 9;
    case Schedule::paper_large:
      if (mu <= 1) return std::nullopt;
      return 2 / paper_large_block(mu);
    case Schedule::row_stream: return (tied ? 3 : 6) * x * x;
    case Schedule::stationary: return 4 * x + narrow_product(x) + (tied ? 1 : 3);
    case Schedule::q_stored: return 2 * x * x + of_q + 2;
    case Schedule::half_dim: return x * x + of_q + 6;
    case Schedule::weight_resident:
      if (mu <= 2) return std::nullopt;
      return (tied ? 2 : 4) / (mu - 2);
    case Schedule::tile_fused:  // two tiles, or one and p parked
      return std::min(std::sqrt(96.0) * x, std::sqrt(48.0) * x + 2);
    default: return std::nullopt;
  }
}

std::optional<double> forward(Schedule schedule, bool tied, double mu) {
  const double x = 1 / std::sqrt(mu);
  switch (schedule) {
    case Schedule::paper_small: return 4 * x + narrow_product_of_paper(x) + 1;
    case Schedule::paper_large: return 4 / (std::sqrt(9 + 4 * mu) - 3);  // 3 b + b^2 = mu
    case Schedule::row_stream: return (tied ? 2 : 4) * x * x;
    case Schedule::stationary: return 2 * x + narrow_product(x) + 1;
    case Schedule::score_stored: return 2 * x * x + 2;
    case Schedule::tile_fused: return std::sqrt(24.0) * x;
    default: return std::nullopt;
  }
}

// How much more the first costs; no value where one does not fit.
template <class Cost>
std::optional<double> excess(const Cost& cost, Schedule first, Schedule second, double at) {
  const auto p = cost(first, at), q = cost(second, at);
  if (!p || !q) return std::nullopt;
  return double(*p) - double(*q);
}

}  // namespace

std::optional<double> leading_cost(Pass pass, Schedule schedule, Tie tie, double mu) {
  const bool tied = tie != Tie::none;
  return pass == Pass::forward ? forward(schedule, tied, mu) : backward(schedule, tied, mu);
}

word_level::Cost exact_cost(Pass pass, Schedule schedule, const LayerShape& shape, index_t M) {
  using word_level::ScoreTile;
  if (pass != Pass::backward || schedule != Schedule::tile_fused) {
    return word_level::least_cost(pass, schedule, shape, M);
  }
  const auto both = word_level::tile_fused_backward(shape, M, ScoreTile::resident);
  const auto parked = word_level::tile_fused_backward(shape, M, ScoreTile::parked);
  if (!both || !parked) return parked;  // one tile fits wherever two do
  return both->total() < parked->total() ? both : parked;
}

std::vector<Crossover> crossovers(Pass pass, Tie tie) {
  const auto cost = [&](Schedule schedule, double mu) {
    return leading_cost(pass, schedule, tie, mu);
  };
  std::vector<Crossover> list;
  for (int i = 0; i < schedule_count; ++i) {
    for (int j = i + 1; j < schedule_count; ++j) {
      const Schedule p = static_cast<Schedule>(i), q = static_cast<Schedule>(j);
      for (double mu = least_mu; mu * step < most_mu; mu *= step) {
        const auto before = excess(cost, p, q, mu), after = excess(cost, p, q, mu * step);
        if (!before || !after || (*before < 0) == (*after < 0)) continue;
        double low = mu, high = mu * step;
        for (int halving = 0; halving < 50; ++halving) {
          const double middle = (low + high) / 2;
          ((*excess(cost, p, q, middle) < 0) == (*before < 0) ? low : high) = middle;
        }
        const bool p_below = *before < 0;
        list.push_back({p_below ? p : q, p_below ? q : p, high});
      }
    }
  }
  return list;
}

std::optional<double> measured_crossover(Pass pass, Tie tie, const Crossover& of, index_t n,
                                         index_t d) {
  const LayerShape shape = {n, n, d, d, tie};
  const double square = double(d) * double(d);
  const auto above_is_cheaper = [&](index_t M) -> std::optional<bool> {
    const auto below = exact_cost(pass, of.below, shape, M);
    const auto above = exact_cost(pass, of.above, shape, M);
    if (!above) return false;
    if (!below) return std::nullopt;
    return above->total() < below->total();
  };
  index_t low = 0, high = 0;
  bool found = false;
  for (const double factor : {1.1, 1.25, 1.5}) {
    low = index_t(of.mu * square / factor), high = index_t(of.mu * square * factor);
    const auto at_low = above_is_cheaper(low), at_high = above_is_cheaper(high);
    found = at_low && at_high && !*at_low && *at_high;
    if (found) break;
  }
  if (!found) return std::nullopt;
  while (high - low > 1) {
    const index_t middle = low + (high - low) / 2;
    const auto cheaper = above_is_cheaper(middle);
    if (!cheaper) return std::nullopt;
    (*cheaper ? high : low) = middle;
  }
  return double(high) / square;
}

}  // namespace ioattn::theory
