#include "theory/pair_names.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::theory {
namespace {

constexpr double most_M = 0.4;

// One segment of a kind: `whole` is 1, or 0 where no pair is.
double multiply_adds(double rate, double whole, double operands, double names) {
  return rate * operands * std::sqrt(whole * operands * operands + names);
}

// The same with up to M names left behind, each at its price: as many as pay.
double with_names_left(double rate, double whole, double operands, double found, double M,
                       double price) {
  double left = M;
  if (price > 0) {
    const double root = rate * operands / (2 * price);
    left = std::clamp(root * root - whole * operands * operands - found, 0.0, M);
  }
  return multiply_adds(rate, whole, operands, found + left) - price * left;
}

// With at most `operands` words of operands and at most `found` names found, read or written.
double most_with(const PairWork& work, double operands, double found, double M, double price) {
  double most = with_names_left(work.rate, 1, operands, found, M, price);
  if (work.rate_of_named > work.rate) {
    most = std::max(most, with_names_left(work.rate_of_named, 0, operands, found, M, price));
  }
  return most + price * std::min(M, found);
}

}  // namespace

// Cells of operands whose borders do not depend on M, so that more M never makes less.
double most_of_priced_segment(const PairWork& work, double M, double events, double price,
                              double enough) {
  constexpr double ratio = 1.004, largest = 16;
  const double B = M + events;
  double high = B;
  double low = largest * std::pow(ratio, -std::floor(std::log(largest / B) / std::log(ratio) + 1));
  double most = 0;
  while (low > B / 50 && most < enough) {
    most = std::max(most, most_with(work, high, B - low, M, price));
    high = low;
    low /= ratio;
  }
  return std::max(most, most_with(work, high, B, M, price));
}

double pair_names_bound(const PairWork& work, double M) {
  constexpr int turns = 80;
  constexpr double first = 0.004, ratio = 1.06;
  const double words = M / work.whole;
  if (words > most_M) return 0;
  const double in_units = work.multiply_adds / (work.whole * std::sqrt(work.whole));
  double best = 0;
  // Events and prices do not depend on M, so that the bound cannot rise with it.
  const auto attempt = [&](double at, double length, double share) {
    const double events =
        std::floor(at * (1 + std::max(0.0, 1.05 - 3.5 * at)) * length * work.whole);
    if (events < 1) return;
    const double X = events / work.whole, price = share * work.rate * std::sqrt(at);
    // A segment that makes as much leaves the bound where it is.
    const double enough = in_units * events / (best + work.births + events);
    for (const double found : {0.0, 0.5, 1.0, 1.5}) {
      const double names = std::min(found * words, words + X);
      if (most_with(work, words + X - names, names, words, price) >= enough) return;
    }
    const double most = most_of_priced_segment(work, words, X, price, enough);
    best = std::max(best, events * (in_units / most - 1) - work.births);
  };
  // Those near M are best, and soon show that others are not.
  const int near = int(std::lround(std::log(std::max(words, first) / first) / std::log(ratio)));
  for (int step = 0; step < 2 * turns; ++step) {
    const int turn = near + (step % 2 == 0 ? step / 2 : -(step + 1) / 2);
    if (turn < 0 || turn >= turns) continue;
    const double at = first * std::pow(ratio, turn);
    for (const double length : {1.0, 1.15, 1.4}) {
      for (const double share : {0.72, 0.82, 0.94}) attempt(at, length, share);
    }
  }
  return best;
}

}  // namespace ioattn::theory
