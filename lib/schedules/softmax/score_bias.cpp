#include "schedules/softmax/score_bias.hpp"

#include <limits>

#include "schedules/memory/storage.hpp"
#include "schedules/range.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// Read into the memory of the tile, which is created next.
void trace_load(const Trace& trace, const Range& queries, const Range& keys) {
  const Block bias = {Operand::bias, queries.begin, keys.begin, queries.size(), keys.size()};
  trace.read(bias);
  trace.remove(bias);
}

void trace_store(const Trace& trace, const Range& queries, const Range& keys, bool add) {
  if (!trace.is_observed()) return;
  for (index_t i = queries.begin; i < queries.end; ++i)
    for (index_t j = keys.begin; j < keys.end; ++j) {
      const Block word = {Operand::dBias, i, j, 1, 1};
      trace.begin_sum(word, add);
      trace.write_and_remove(word);
    }
}

}  // namespace

template <class S>
void load_bias(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
               const MatrixView<const S>& bias, const Range& queries, const Range& keys,
               index_t lanes, Compute<S>* tile, index_t stride) {
  using T = Compute<S>;
  trace_load(trace, queries, keys);
  if constexpr (is_half_storage<S>) {
    constexpr index_t side = 32;
    T square[side * side];
    for (Range i(queries.size(), side); i; i.next()) {
      for (Range j(keys.size(), side); j; j.next()) {
        load_rows(kernels, bias.at(queries.begin + i.begin, keys.begin + j.begin), bias.stride,
                  i.size(), j.size(), square, side);
        kernels.transpose(square, side, i.size(), j.size(), false,
                          tile + j.begin * stride + i.begin, stride);
      }
    }
  } else {
    kernels.transpose(bias.at(queries.begin, keys.begin), bias.stride, queries.size(), keys.size(),
                      false, tile, stride);
  }
  for (index_t j = 0; j < keys.size() && lanes > queries.size(); ++j)
    fill_words(kernels, tile + j * stride + queries.size(), lanes - queries.size(), T(0));
}

template <class S>
void load_bias_rows(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                    const MatrixView<const S>& bias, const Range& queries, const Range& keys,
                    index_t lanes, Compute<S>* tile, index_t stride) {
  using T = Compute<S>;
  trace_load(trace, queries, keys);
  load_rows(kernels, bias.at(queries.begin, keys.begin), bias.stride, queries.size(), keys.size(),
            tile, stride);
  for (index_t i = 0; i < queries.size(); ++i, tile += stride)
    fill_words(kernels, tile + keys.size(), lanes - keys.size(), T(0));
}

template <class T>
void store_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const T* tile,
                  index_t stride, const Range& queries, const Range& keys, bool add,
                  const MatrixView<T>& d_bias) {
  trace_store(trace, queries, keys, add);
  kernels.transpose(tile, stride, keys.size(), queries.size(), add,
                    d_bias.at(queries.begin, keys.begin), d_bias.stride);
}

void store_d_bias_rows(const kernels::KernelTable<float>& kernels, const Trace& trace,
                       const float* tile, index_t stride, const Range& queries, const Range& keys,
                       bool add, const MatrixView<float>& d_bias) {
  trace_store(trace, queries, keys, add);
  store_rows(kernels, tile, stride, queries.size(), keys.size(), 1.f, add,
             d_bias.at(queries.begin, keys.begin), d_bias.stride);
}

template <class T>
void clear_d_bias(const kernels::KernelTable<T>& kernels, const Trace& trace, const Range& queries,
                  const MatrixView<T>& d_bias) {
  trace_store(trace, queries, Range(d_bias.cols, d_bias.cols), false);
  for (index_t i = queries.begin; i < queries.end; ++i)
    fill_words(kernels, d_bias.row(i), d_bias.cols, T(0));
}

template <class S>
void round_d_bias(const kernels::KernelTable<Compute<S>>& kernels, const Trace& trace,
                  const MatrixView<const Compute<S>>& sums, index_t first_query, bool add,
                  const MatrixView<S>& d_bias) {
  for (index_t i = 0; i < sums.rows && trace.is_observed(); ++i) {
    for (index_t j = 0; j < sums.cols; ++j) {
      const Block word = {Operand::p, first_query + i, j, 1, 1};
      const Block result = {Operand::dBias, first_query + i, j, 1, 1};
      trace.read(word);
      if (add) {
        trace.read_rounded(result);
        trace.write_rounded_and_remove(result);
        trace.remove(word);
      } else {
        trace.write_rounded_and_remove(word);
      }
    }
  }
  store_rows<S>(kernels, sums.data, sums.stride, sums.rows, sums.cols, 1, add,
                d_bias.row(first_query), d_bias.stride, trace.counted(Operand::dBias));
}

template <class T>
const T* shifts_of(const T* lse, index_t count, T* copy) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  index_t unseen = 0;
  for (index_t i = 0; i < count; ++i) unseen += lse[i] == -infinity ? 1 : 0;
  if (unseen == 0) return lse;
  for (index_t i = 0; i < count; ++i) copy[i] = lse[i] == -infinity ? infinity : lse[i];
  return copy;
}

#define IOATTN_INSTANTIATE_STORAGE(S)                                                           \
  template void load_bias(const kernels::KernelTable<Compute<S>>&, const Trace&,                \
                          const MatrixView<const S>&, const Range&, const Range&, index_t,      \
                          Compute<S>*, index_t);                                                \
  template void load_bias_rows(const kernels::KernelTable<Compute<S>>&, const Trace&,           \
                               const MatrixView<const S>&, const Range&, const Range&, index_t, \
                               Compute<S>*, index_t)
IOATTN_INSTANTIATE_STORAGE(float);
IOATTN_INSTANTIATE_STORAGE(double);
IOATTN_INSTANTIATE_STORAGE(bf16);
IOATTN_INSTANTIATE_STORAGE(f16);
#undef IOATTN_INSTANTIATE_STORAGE

#define IOATTN_INSTANTIATE(T)                                                                 \
  template void store_d_bias(const kernels::KernelTable<T>&, const Trace&, const T*, index_t, \
                             const Range&, const Range&, bool, const MatrixView<T>&);         \
  template void clear_d_bias(const kernels::KernelTable<T>&, const Trace&, const Range&,      \
                             const MatrixView<T>&);                                           \
  template const T* shifts_of(const T*, index_t, T*)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
#undef IOATTN_INSTANTIATE

template void round_d_bias(const kernels::KernelTable<float>&, const Trace&,
                           const MatrixView<const float>&, index_t, bool, const MatrixView<bf16>&);
template void round_d_bias(const kernels::KernelTable<float>&, const Trace&,
                           const MatrixView<const float>&, index_t, bool, const MatrixView<f16>&);

}  // namespace ioattn::schedules
