#include "schedules/merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/parallel.hpp"
#include "schedules/task.hpp"

namespace ioattn::schedules {
namespace {

constexpr index_t rows_at_once = 64;  // of one worker

template <class T>
void merge_row(std::span<const Partial<T>> parts, index_t b, index_t h, index_t i,
               const TensorView<T>& o, const TensorView<T>& lse) {
  const T infinity = std::numeric_limits<T>::infinity();
  const auto lse_of = [&](const Partial<T>& part) { return *part.lse.matrix(b, h).at(0, i); };
  T max = -infinity;
  for (const Partial<T>& part : parts) {
    const T value = lse_of(part);
    if (value > max || std::isnan(value)) max = value;  // NaN stays
  }
  T sum = 0;
  for (const Partial<T>& part : parts) {
    if (lse_of(part) != -infinity) sum += std::exp(lse_of(part) - max);
  }
  if (lse.data != nullptr) *lse.matrix(b, h).at(0, i) = max + std::log(sum);
  if (o.data == nullptr) return;
  T* row = o.matrix(b, h).row(i);
  std::fill_n(row, o.cols, T(0));
  for (const Partial<T>& part : parts) {
    if (lse_of(part) == -infinity) continue;
    const T weight = std::exp(lse_of(part) - max) / sum;
    const T* from = part.o.matrix(b, h).row(i);
    for (index_t k = 0; k < o.cols; ++k) row[k] += weight * from[k];
  }
}

}  // namespace

template <class T>
void merge(std::span<const Partial<T>> parts, int threads, const TensorView<T>& o,
           const TensorView<T>& lse) {
  const bool of_o = o.data != nullptr;
  const index_t batch = of_o ? o.batch : lse.batch, heads = of_o ? o.heads : lse.heads;
  const index_t n = of_o ? o.rows : lse.cols, blocks = ceil_div(n, rows_at_once);
  parallel::Dispenser items;
  auto body = [&](int) {
    for (index_t item = items.take(); item < batch * heads * blocks; item = items.take()) {
      const index_t head = item / blocks;
      const Range rows(item % blocks * rows_at_once, n, rows_at_once);
      for (index_t i = rows.begin; i < rows.end; ++i)
        merge_row(parts, head / heads, head % heads, i, o, lse);
    }
  };
  parallel::run(threads, body);
}

template void merge(std::span<const Partial<float>>, int, const TensorView<float>&,
                    const TensorView<float>&);
template void merge(std::span<const Partial<double>>, int, const TensorView<double>&,
                    const TensorView<double>&);

}  // namespace ioattn::schedules
