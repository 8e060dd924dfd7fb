#include "schedules/score_bias.hpp"

#include <algorithm>
#include <limits>

namespace ioattn::schedules {
namespace {

// Read into the memory of the tile, which is created next.
void trace_load(const Trace& trace, const Range& queries, const Range& keys) {
  const Block bias = {Operand::bias, queries.begin, keys.begin, queries.size(), keys.size()};
  trace.read(bias);
  trace.remove(bias);
}

void trace_store(const Trace& trace, const Range& queries, const Range& keys, bool read) {
  if (!trace.is_observed()) return;
  for (index_t i = queries.begin; i < queries.end; ++i)
    for (index_t j = keys.begin; j < keys.end; ++j) {
      const Block word = {Operand::dBias, i, j, 1, 1};
      if (read) {
        trace.read(word);
      } else {
        trace.create(word);
      }
      trace.write_and_remove(word);
    }
}

}  // namespace

template <class T>
void load_bias(const kernels::KernelTable<T>& kernels, const Trace& trace,
               const MatrixView<const T>& bias, const Range& queries, const Range& keys,
               index_t lanes, T* tile, index_t stride) {
  trace_load(trace, queries, keys);
  kernels.transpose(bias.at(queries.begin, keys.begin), bias.stride, queries.size(), keys.size(),
                    false, tile, stride);
  for (index_t j = 0; j < keys.size() && lanes > queries.size(); ++j)
    std::fill_n(tile + j * stride + queries.size(), lanes - queries.size(), T(0));
}

template <class T>
void load_bias_rows(const Trace& trace, const MatrixView<const T>& bias, const Range& queries,
                    const Range& keys, index_t lanes, T* tile, index_t stride) {
  trace_load(trace, queries, keys);
  for (index_t i = 0; i < queries.size(); ++i, tile += stride) {
    std::copy_n(bias.at(queries.begin + i, keys.begin), keys.size(), tile);
    std::fill_n(tile + keys.size(), lanes - keys.size(), T(0));
  }
}

template <class T>
void store_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const T* tile,
                  index_t stride, const Range& queries, const Range& keys, bool add,
                  const MatrixView<T>& d_bias) {
  trace_store(trace, queries, keys, add);
  kernels.transpose(tile, stride, keys.size(), queries.size(), add,
                    d_bias.at(queries.begin, keys.begin), d_bias.stride);
}

template <class T>
void clear_d_bias(const Trace& trace, const Range& queries, const MatrixView<T>& d_bias) {
  trace_store(trace, queries, Range(d_bias.cols, d_bias.cols), false);
  for (index_t i = queries.begin; i < queries.end; ++i)
    std::fill_n(d_bias.row(i), d_bias.cols, T(0));
}

template <class T>
void hide_rows_without_keys(index_t count, T* lse) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::replace(lse, lse + count, -infinity, infinity);
}

#define IOATTN_INSTANTIATE(T)                                                                  \
  template void load_bias(const kernels::KernelTable<T>&, const Trace&,                        \
                          const MatrixView<const T>&, const Range&, const Range&, index_t, T*, \
                          index_t);                                                            \
  template void load_bias_rows(const Trace&, const MatrixView<const T>&, const Range&,         \
                               const Range&, index_t, T*, index_t);                            \
  template void store_d_bias(const kernels::KernelTable<T>&, const Trace&, const T*, index_t,  \
                             const Range&, const Range&, bool, const MatrixView<T>&);          \
  template void clear_d_bias(const Trace&, const Range&, const MatrixView<T>&);                \
  template void hide_rows_without_keys(index_t, T*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
