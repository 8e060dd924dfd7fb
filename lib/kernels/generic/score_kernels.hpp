#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/generic/exponential.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/product_order.hpp"

// Elementwise kernels and sums over score tiles, over a vector type V. See scalar_vector.hpp about
// the anonymous namespace.
namespace ioattn::kernels {
namespace {

template <class V>
struct ScoreKernels {
  using T = typename V::value_type;

  // `count` vectors over adjacent queries.
  template <int vectors>
  struct Queries {
    static constexpr int count = vectors;
    static V load(const T* p, int v) { return V::load(p + v * V::lanes); }
    static void store(V x, T* p, int v) { x.store(p + v * V::lanes); }
  };
  // One vector over the last queries of a tile, fewer than V::lanes.
  struct LastQueries {
    static constexpr int count = 1;
    index_t left;
    V load(const T* p, int) const { return V::load_first(p, left); }
    void store(V x, T* p, int) const { x.store_first(p, left); }
  };

  // Sums run down the keys: several columns of vectors at a time hide their latency.
  static constexpr int most_vectors = 4;

  template <class Body>
  static IOATTN_INLINE void for_queries(index_t queries, const Body& body) {
    index_t i = 0;
    for (; i + most_vectors * V::lanes <= queries; i += most_vectors * V::lanes)
      body(Queries<most_vectors>{}, i);
    for (; i + V::lanes <= queries; i += V::lanes) body(Queries<1>{}, i);
    if (i < queries) body(LastQueries{queries - i}, i);
  }

  static index_t end_of_block(index_t first, index_t keys) {
    return keys - first < terms_per_accumulator ? keys : first + terms_per_accumulator;
  }

  static IOATTN_KERNEL void exp_tile(const ScoreTile<T>& tile, const T* lse) {
    const ScoreTile<T> x = tile;
    for (index_t j = 0; j < x.keys; ++j) {
      T* row = x.data + j * x.stride;
      for_queries(x.queries, [&](const auto& lanes, index_t i) {
        for (int v = 0; v < lanes.count; ++v)
          lanes.store(exponential(lanes.load(row + i, v) - lanes.load(lse + i, v)), row + i, v);
      });
    }
  }

  static IOATTN_KERNEL void gradient_tile(const ScoreTile<T>& f, const ScoreTile<T>& q,
                                          const T* delta, const ScoreTile<T>& p) {
    const ScoreTile<T> weights = f, scores = q, result = p;
    for (index_t j = 0; j < weights.keys; ++j) {
      const T* weight = weights.data + j * weights.stride;
      const T* score = scores.data + j * scores.stride;
      T* out = result.data + j * result.stride;
      for_queries(weights.queries, [&](const auto& lanes, index_t i) {
        for (int v = 0; v < lanes.count; ++v) {
          const V shifted = lanes.load(score + i, v) - lanes.load(delta + i, v);
          lanes.store(lanes.load(weight + i, v) * shifted, out + i, v);
        }
      });
    }
  }

  static IOATTN_KERNEL void dot_tile(const ScoreTile<T>& f, const ScoreTile<T>& q, T* sum) {
    const ScoreTile<T> x = f, y = q;
    for_queries(x.queries, [&](const auto& lanes, index_t i) {
      constexpr int n = std::remove_reference_t<decltype(lanes)>::count;
      V total[n];
      for (int v = 0; v < n; ++v) total[v] = lanes.load(sum + i, v);
      for (index_t first = 0; first < x.keys; first += terms_per_accumulator) {
        V part[n];
        for (int v = 0; v < n; ++v) part[v] = V::splat(T(0));
        for (index_t j = first; j < end_of_block(first, x.keys); ++j)
          for (int v = 0; v < n; ++v)
            part[v] = V::fma(lanes.load(x.data + j * x.stride + i, v),
                             lanes.load(y.data + j * y.stride + i, v), part[v]);
        for (int v = 0; v < n; ++v) total[v] = total[v] + part[v];
      }
      for (int v = 0; v < n; ++v) lanes.store(total[v], sum + i, v);
    });
  }

  // A maximum stays until weights would exceed e^largest_exponent, which other rows have no part
  // in.
  static constexpr T largest_exponent = T(32);
  static IOATTN_INLINE V new_max(V old, V largest) {
    return V::select_less(V::splat(largest_exponent), largest - old, largest, old);
  }
  // The error of a row's sum is one of all its results: sums are shorter than those of products.
  static constexpr index_t weights_per_sum = 8;

  template <bool store>
  static IOATTN_INLINE void update(const ScoreTile<T>& tile, T* row_max, T* row_sum, T* rescale) {
    const ScoreTile<T> x = tile;
    const V minus_infinity = V::splat(static_cast<T>(-__builtin_inf()));
    for_queries(x.queries, [&](const auto& lanes, index_t i) {
      constexpr int n = std::remove_reference_t<decltype(lanes)>::count;
      V largest[n], shift[n], before[n], total[n];
      for (int v = 0; v < n; ++v) largest[v] = lanes.load(row_max + i, v);
      for (index_t j = 0; j < x.keys; ++j)
        for (int v = 0; v < n; ++v)
          largest[v] = V::max(largest[v], lanes.load(x.data + j * x.stride + i, v));
      for (int v = 0; v < n; ++v) {
        const V old_max = lanes.load(row_max + i, v);
        const V max = new_max(old_max, largest[v]);
        // Rows that have seen only -inf: shift by 0, so that exp(-inf - shift) is 0 and not NaN.
        shift[v] = V::select_less(minus_infinity, max, max, V::splat(T(0)));
        const V factor = exponential_below(old_max - shift[v]);
        before[v] = lanes.load(row_sum + i, v) * factor;
        total[v] = V::splat(T(0));
        lanes.store(max, row_max + i, v);
        if (rescale != nullptr) lanes.store(factor, rescale + i, v);
      }
      for (index_t first = 0; first < x.keys; first += weights_per_sum) {
        const index_t last = std::min(x.keys, first + weights_per_sum);
        V part[n];
        for (int v = 0; v < n; ++v) part[v] = V::splat(T(0));
        for (index_t j = first; j < last; ++j)
          for (int v = 0; v < n; ++v) {
            T* p = x.data + j * x.stride + i;
            const V weight = exponential_below(lanes.load(p, v) - shift[v]);
            if (store) lanes.store(weight, p, v);
            part[v] = part[v] + weight;
          }
        for (int v = 0; v < n; ++v) total[v] = total[v] + part[v];
      }
      for (int v = 0; v < n; ++v) lanes.store(before[v] + total[v], row_sum + i, v);
    });
  }

  static IOATTN_KERNEL void softmax_update(const ScoreTile<T>& tile, bool store, T* row_max,
                                           T* row_sum, T* rescale) {
    if (store) {
      update<true>(tile, row_max, row_sum, rescale);
    } else {
      update<false>(tile, row_max, row_sum, rescale);
    }
  }

  struct Operands {
    static IOATTN_INLINE V vector(const T* x) { return V::load(x); }
    static IOATTN_INLINE T number(const T* x) { return *x; }
  };

  // The sum of a row's products, in one order however its numbers are stored.
  template <class Load, class S>
  static IOATTN_INLINE T dot(index_t cols, const S* x, const S* y) {
    constexpr int chains = 4;
    T total = 0;
    for (index_t first = 0; first < cols; first += terms_per_accumulator) {
      const index_t last = end_of_block(first, cols);
      V sum[chains];
      for (int v = 0; v < chains; ++v) sum[v] = V::splat(T(0));
      index_t k = first;
      for (; k + chains * V::lanes <= last; k += chains * V::lanes)
#pragma GCC unroll 4
        for (int v = 0; v < chains; ++v)
          sum[v] = V::fma(Load::vector(x + k + v * V::lanes), Load::vector(y + k + v * V::lanes),
                          sum[v]);
      for (; k + V::lanes <= last; k += V::lanes)
        sum[0] = V::fma(Load::vector(x + k), Load::vector(y + k), sum[0]);
      T lanes[V::lanes];
      ((sum[0] + sum[1]) + (sum[2] + sum[3])).store(lanes);
#pragma GCC unroll 4
      for (int half = V::lanes / 2; half > 0; half /= 2)
        for (int v = 0; v < half; ++v) lanes[v] += lanes[v + half];
      T part = 0;
      for (; k < last; ++k) part += Load::number(x + k) * Load::number(y + k);
      total += part + lanes[0];
    }
    return total;
  }

  static IOATTN_KERNEL void row_dot(index_t rows, index_t cols, const T* x, index_t x_stride,
                                    const T* y, index_t y_stride, T* out) {
    for (index_t i = 0; i < rows; ++i, x += x_stride, y += y_stride)
      out[i] = dot<Operands>(cols, x, y);
  }

  // Rows from memory are no stream that a CPU fetches by itself if they are short and far apart.
  static IOATTN_KERNEL void scale_rows(index_t rows, index_t cols, const T* factors,
                                       index_t factor_step, const T* src, index_t src_stride,
                                       T* dst, index_t dst_stride) {
    constexpr index_t ahead = 4, line = 64 / sizeof(T);
    for (index_t i = 0; i < rows;
         ++i, factors += factor_step, src += src_stride, dst += dst_stride) {
      if (src != dst && i + ahead < rows) {
        for (index_t k = 0; k < cols; k += line)
          __builtin_prefetch(src + ahead * src_stride + k, 0, 2);
      }
      const V factor = V::splat(*factors);
      index_t k = 0;
      for (; k + V::lanes <= cols; k += V::lanes) (factor * V::load(src + k)).store(dst + k);
      for (; k < cols; ++k) dst[k] = *factors * src[k];
    }
  }

  // 0 times what is not finite is NaN.
  static IOATTN_KERNEL bool are_finite(index_t rows, index_t cols, const T* x, index_t x_stride) {
    constexpr int rows_at_once = 4;  // sums enough to hide the latency of a multiply-add
    const V zero = V::splat(T(0));
    V sum[rows_at_once];
    for (int r = 0; r < rows_at_once; ++r) sum[r] = zero;
    T total = 0;
    for (index_t i = 0; i < rows; i += rows_at_once) {
      const T* row[rows_at_once];
#pragma GCC unroll 4
      for (int r = 0; r < rows_at_once; ++r) row[r] = x + std::min(i + r, rows - 1) * x_stride;
      index_t k = 0;
      for (; k + V::lanes <= cols; k += V::lanes)
#pragma GCC unroll 4
        for (int r = 0; r < rows_at_once; ++r) sum[r] = V::fma(V::load(row[r] + k), zero, sum[r]);
      for (; k < cols; ++k)
        for (int r = 0; r < rows_at_once; ++r) total += row[r][k] * T(0);
    }
    T lanes[V::lanes];
    ((sum[0] + sum[1]) + (sum[2] + sum[3])).store(lanes);
    for (int v = 0; v < V::lanes; ++v) total += lanes[v];
    return total == T(0);
  }
};

}  // namespace
}  // namespace ioattn::kernels
