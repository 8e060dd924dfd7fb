#include "search/knees.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::search {
namespace {

constexpr double least_rise = 1.5;     // from plateau to plateau
constexpr double leaves = 1.2;         // of the plateau: a rise has begun
constexpr double still_rising = 1.25;  // over an octave: a rise goes on
// From where a rise begins: nothing cuts noise at the end of a curve.
constexpr std::size_t least_points = 3;
// Half and twice a cache: neither counting in ways nor pages at random make up for more.
constexpr double least_share = 0.6, most_share = 1.6;
constexpr double farthest = 12;  // a factor; what is farther is another cache's

void cut_to_later(std::vector<CurvePoint>* curve) {
  double least = HUGE_VAL;
  for (std::size_t i = curve->size(); i-- > 0;)
    least = (*curve)[i].seconds = std::min((*curve)[i].seconds, least);
}

// The first point at `i` or after it that is at most a little below those of the next octave.
std::size_t next_plateau(const std::vector<CurvePoint>& curve, std::size_t i) {
  for (; i + 1 < curve.size(); ++i) {
    std::size_t octave = i;
    while (octave + 1 < curve.size() && curve[octave].bytes < 2 * curve[i].bytes) ++octave;
    if (curve[octave].seconds < still_rising * curve[i].seconds) break;
  }
  return i;
}

// Where the curve reaches `seconds`, between points by the logarithm of the size.
index_t crossing(const std::vector<CurvePoint>& curve, std::size_t begin, double seconds) {
  std::size_t i = begin;
  while (curve[i].seconds < seconds) ++i;
  if (i == 0) return curve[0].bytes;
  const CurvePoint &low = curve[i - 1], &high = curve[i];
  const double part = (seconds - low.seconds) / (high.seconds - low.seconds);
  const double ratio = static_cast<double>(high.bytes) / static_cast<double>(low.bytes);
  return static_cast<index_t>(std::lround(static_cast<double>(low.bytes) * std::pow(ratio, part)));
}

}  // namespace

std::vector<Knee> find_knees(std::vector<CurvePoint> curve) {
  std::vector<Knee> knees;
  if (curve.empty()) return knees;
  cut_to_later(&curve);
  double plateau = curve[0].seconds;
  for (std::size_t i = 0; i + least_points <= curve.size(); ++i) {
    if (curve[i].seconds <= leaves * plateau) continue;
    const std::size_t top = next_plateau(curve, i);
    const double after = curve[top].seconds;
    if (after >= least_rise * plateau) {
      knees.push_back(
          {crossing(curve, i, std::min(std::sqrt(plateau * after), 2 * plateau)), plateau, after});
    }
    plateau = after;
    i = top;
  }
  return knees;
}

const char* name_of(CacheVerdict verdict) {
  switch (verdict) {
    case CacheVerdict::unclear: return "unclear";
    case CacheVerdict::confirmed: return "confirmed";
    case CacheVerdict::smaller: return "smaller";
    case CacheVerdict::larger: return "larger";
  }
  return "unclear";
}

std::vector<ProbedCache> judge_caches(const std::vector<index_t>& told,
                                      const std::vector<std::vector<Knee>>& curves) {
  std::vector<ProbedCache> caches;
  index_t behind = 0;
  for (const index_t bytes : told) {
    ProbedCache cache;
    double nearest = std::log(farthest);
    for (const std::vector<Knee>& knees : curves) {
      for (const Knee& knee : knees) {
        const double ratio = static_cast<double>(knee.bytes) / static_cast<double>(bytes);
        const double distance = std::fabs(std::log(ratio));
        if (knee.bytes <= behind || distance >= nearest) continue;
        nearest = distance;
        cache.found_bytes = knee.bytes;
        cache.verdict = ratio < least_share  ? CacheVerdict::smaller
                        : ratio > most_share ? CacheVerdict::larger
                                             : CacheVerdict::confirmed;
      }
      if (cache.found_bytes > 0) break;
    }
    behind = std::max(behind, cache.found_bytes);
    caches.push_back(cache);
  }
  return caches;
}

}  // namespace ioattn::search
