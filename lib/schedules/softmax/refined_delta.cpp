#include "schedules/softmax/refined_delta.hpp"

#include <cmath>
#include <cstring>

#include "schedules/memory/memory_moves.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {
namespace {

// By so much the weights of all keys miss 1, as weights and LSE are rounded. If they miss more
// there are other keys, in another call: however small their weights, their values may be large.
float rounding_of_weights(float lse) { return 0x1p-19f + 0x1p-22f * std::abs(lse); }

struct Sums {
  float f, fq;
};

constexpr index_t lanes = 16;
using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));

float sum_of(const Lanes& parts) {
  using Quarter = float __attribute__((vector_size(sizeof(Lanes) / 4)));
  Quarter quarters[4];
  std::memcpy(quarters, &parts, sizeof parts);
  const Quarter sum = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// In parts: one sum would wait for each addition. Parts that are elements of an array would go
// through memory.
Sums sums_of(const float* f, const float* q, index_t count) {
  Lanes f_parts = {}, fq_parts = {};
  index_t j = 0;
  const auto add = [&](index_t some) {
    Lanes weights = {}, products = {};
    std::memcpy(&weights, f + j, static_cast<std::size_t>(some) * sizeof(float));
    std::memcpy(&products, q + j, static_cast<std::size_t>(some) * sizeof(float));
    f_parts += weights;
    fq_parts += weights * products;
  };
  for (; j + lanes <= count; j += lanes) add(lanes);
  add(count - j);
  return {sum_of(f_parts), sum_of(fq_parts)};
}

}  // namespace

const float* refined_deltas(const kernels::KernelTable<float>& kernels, const Mask& mask, index_t m,
                            const ScoreRows& tile, const float* delta, float* refined) {
  if (!mask.hides() && m > few_keys) return delta;
  const Range &queries = tile.queries, &keys = tile.keys;
  const float* deltas = delta;
  for (index_t i = 0; i < queries.size(); ++i) {
    const Interval seen = mask.of_row(queries.begin + i, m);
    if (seen.is_empty() || seen.size() > few_keys) continue;
    if (seen.begin < keys.begin || seen.end > keys.end) continue;
    const index_t first = i * tile.stride + seen.begin - keys.begin;
    tell_read(kernels, tile.f + first, seen.size());
    tell_read(kernels, tile.q + first, seen.size());
    const Sums sums = sums_of(tile.f + first, tile.q + first, seen.size());
    const float exact = sums.fq / sums.f;
    tell_read(kernels, tile.lse + i, 1);
    // Neither is true of NaN.
    const bool are_whole =
        tile.no_other_call_has_keys || std::abs(sums.f - 1) <= rounding_of_weights(tile.lse[i]);
    if (!are_whole || !(std::abs(exact) < INFINITY)) continue;
    if (deltas == delta) {
      copy_words(kernels, delta, queries.size(), refined);
      deltas = refined;
    }
    tell_written(kernels, refined + i, 1);
    refined[i] = exact;
  }
  return deltas;
}

}  // namespace ioattn::schedules
