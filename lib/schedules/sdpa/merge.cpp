#include "schedules/sdpa/merge.hpp"

#include <cmath>
#include <limits>

#include "base/half.hpp"
#include "parallel/parallel.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {
namespace {

constexpr index_t rows_at_once = 64;  // of one worker
constexpr index_t cols_at_once = 128;
// Errors grow with these and with how many of them there are, not with the number of parts.
constexpr index_t parts_per_sum = 64;

template <class S>
void merge_row(std::span<const Partial<S>> parts, index_t b, index_t h, index_t i,
               const TensorView<S>& o, const TensorView<Compute<S>>& lse) {
  using T = Compute<S>;
  const T infinity = std::numeric_limits<T>::infinity();
  const auto lse_of = [&](const Partial<S>& part) { return *part.lse.matrix(b, h).at(0, i); };
  T max = -infinity;
  for (const Partial<S>& part : parts) {
    const T value = lse_of(part);
    if (value > max || std::isnan(value)) max = value;  // NaN stays
  }
  const Range blocks(static_cast<index_t>(parts.size()), parts_per_sum);
  const auto parts_of = [&](const Range& block) {
    return parts.subspan(static_cast<std::size_t>(block.begin),
                         static_cast<std::size_t>(block.size()));
  };
  T sum = 0;
  for (Range block = blocks; block; block.next()) {
    T of_block = 0;
    for (const Partial<S>& part : parts_of(block)) {
      if (lse_of(part) != -infinity) of_block += std::exp(lse_of(part) - max);
    }
    sum += of_block;
  }
  if (lse.data != nullptr) {
    const double of_all = static_cast<double>(max) + std::log(static_cast<double>(sum));
    *lse.matrix(b, h).at(0, i) = static_cast<T>(of_all);  // rounded once
  }
  if (o.data == nullptr) return;
  for (Range k(o.cols, cols_at_once); k; k.next()) {
    T sums[cols_at_once] = {};
    for (Range block = blocks; block; block.next()) {
      T of_block[cols_at_once] = {};
      for (const Partial<S>& part : parts_of(block)) {
        if (lse_of(part) == -infinity) continue;
        const T weight = std::exp(lse_of(part) - max) / sum;
        const S* from = part.o.matrix(b, h).at(i, k.begin);
        for (index_t l = 0; l < k.size(); ++l) of_block[l] += weight * to_compute(from[l]);
      }
      for (index_t l = 0; l < k.size(); ++l) sums[l] += of_block[l];
    }
    S* row = o.matrix(b, h).at(i, k.begin);
    for (index_t l = 0; l < k.size(); ++l) row[l] = to_storage<S>(sums[l]);
  }
}

}  // namespace

template <class S>
void merge(std::span<const Partial<S>> parts, int threads, const TensorView<S>& o,
           const TensorView<Compute<S>>& lse) {
  const bool of_o = o.data != nullptr;
  const index_t batch = of_o ? o.batch : lse.batch, heads = of_o ? o.heads : lse.heads;
  const index_t n = of_o ? o.rows : lse.cols, blocks = ceil_div(n, rows_at_once);
  parallel::for_each(threads, batch * heads * blocks, [&](index_t item, int) {
    const index_t head = item / blocks;
    const Range rows(item % blocks * rows_at_once, n, rows_at_once);
    for (index_t i = rows.begin; i < rows.end; ++i)
      merge_row(parts, head / heads, head % heads, i, o, lse);
  });
}

#define IOATTN_INSTANTIATE(S)                                                 \
  template void merge(std::span<const Partial<S>>, int, const TensorView<S>&, \
                      const TensorView<Compute<S>>&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
