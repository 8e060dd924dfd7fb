#include "theory/recomputation_bound.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::theory {
namespace {

// max over z in [low, high] of z^2 (B - slope z + k z^2), where high is at most B / slope.
double largest(double low, double high, double B, double slope, double k) {
  const auto value = [&](double z) { return z * z * (B - slope * z + k * z * z); };
  double best = std::max(value(low), value(high));
  const double root = 9 * slope * slope - 32 * k * B;
  if (root >= 0) {
    const double peak = 4 * B / (3 * slope + std::sqrt(root));
    if (peak > low && peak < high) best = std::max(best, value(peak));
  }
  return best;
}

// The largest (w a + q)(a + w q) with a + q at most 1 and w = scores.
double shared_operands(double scores) { return (1 + scores) * (1 + scores) / 4; }

// The largest z (1 - (1 - scores) z), z at most 1: blocks of scores and of what uses them.
double untouched_block(double scores) { return scores >= 0.5 ? scores : 1 / (4 * (1 - scores)); }

}  // namespace

double most_names(const Recomputed& work) {
  if (work.operands == Operands::computed) return 4;
  return work.of_x_twice ? 27.0 / 32 : 1;
}

Weighing weigh_backward(double scores) {
  return {scores, 1, std::max(scores * scores, (1 + scores * scores) / 4)};
}

Weighing weigh_forward(double scores) {
  return {scores, 1, untouched_block(scores) * untouched_block(scores)};
}

Weighing weigh_backward_tied(double scores) {
  return {scores, (2 + scores) / (1 + scores), shared_operands(scores)};
}

Weighing weigh_forward_tied(double scores) { return {scores, 1 + scores, untouched_block(scores)}; }

Weighing weigh_scores_and_q_tied(double scores) { return {scores, 1, shared_operands(scores)}; }

// z = sqrt(a b). Operands that are given take 2 z words. Computed ones may take fewer beyond z = 1:
// z = ((words + 2) / 4)^2, of which the chord from 2 to 4 words is taken.
double most_of_segment(double B, const Weighing& weighing, Operands operands) {
  constexpr double chord = 1.6, start = 0.4;
  const bool computed = operands != Operands::given;
  const double k = weighing.untouched;
  double square = largest(0, computed ? std::min(1.0, B / 2) : B / 2, B, 2, k);
  if (computed && B > 2) {
    square = std::max(square, largest(1, (B - start) / chord, B - start, chord, k));
  }
  return std::sqrt(weighing.names * square);
}

double recomputation_bound(const Recomputed& work, const Weighing& weighing, double M) {
  const double square = work.width * work.width;
  const double multiply_adds = weighing.scores * work.scores + work.others;
  double longest = 16 * square;
  if (work.operands != Operands::given) {
    if (M > square) return 0;
    longest = most_names(work) * square - 2 * M;
  }
  double best = 0;
  const auto attempt = [&](double events) {
    if (events < 1 || events > longest) return;
    const double B = (2 * M + events) / square;
    const double most = work.width * square * most_of_segment(B, weighing, work.operands);
    best = std::max(best, events * (multiply_adds / most - 1) - work.births);
  };
  // Lengths that shrink with M or do not depend on it, and 4 M: so the bound cannot rise with M.
  attempt(4 * M);
  attempt(std::floor(longest));
  double events = std::floor(16 * square);
  while (events >= 1) {
    attempt(events);
    events = std::floor(0.9 * events);
  }
  return best;
}

double recomputation_bound(const Recomputed& work, Weighing (*weigh)(double scores), double M) {
  double best = 0;
  constexpr int weights = 20;
  for (int i = 0; i <= weights; ++i) {
    best = std::max(best, recomputation_bound(work, weigh(double(i) / weights), M));
  }
  return best;
}

}  // namespace ioattn::theory
