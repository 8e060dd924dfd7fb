#include "theory/segments.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::theory {

// The third vertex of the polytope, M + X^2/c, is never the largest: it needs X > c/2 to pass the
// second and X < (c - M)/2 to pass the first.
double segment_bound(double pairs, double c, double M, double share) {
  const auto value = [&](double x) {
    const double most = std::max((M + x) * (M + x) / c, share * (M + x / 2));
    return x * (pairs / most - 1);
  };
  // The minimum of two functions with one peak each has one peak. It is negative beyond hi.
  double lo = 1, hi = std::max(1.0, std::floor(2 * (pairs / share - M)));
  for (int step = 0; step < 200 && hi - lo > 2; ++step) {
    const double third = std::floor((hi - lo) / 3);
    if (value(lo + third) < value(hi - third)) {
      lo += third;
    } else {
      hi -= third;
    }
  }
  return std::max({value(lo), value(std::floor((lo + hi) / 2)), value(hi)});
}

double half_touched_bound(double pairs, double width, Zones zones, double M) {
  const double square = width * width;
  if (zones != Zones::apart) {
    return segment_bound(pairs, (zones == Zones::keys_shared ? 8 : 2) * square, M, 0.5);
  }
  double best = segment_bound(pairs, 16 * square, M, 0.75);
  constexpr int parts = 10;
  for (int i = 1; i <= parts; ++i) {
    const double mix = double(i) / parts;
    best = std::max(best, segment_bound(pairs, 16 * square / (1 + mix), M, (3 - mix) / 4));
  }
  return best;
}

double colour_bound(double multiply_adds, double norm, double created, double M) {
  return 2 * multiply_adds / (norm * std::sqrt(M)) - 2 * M - created;
}

}  // namespace ioattn::theory
