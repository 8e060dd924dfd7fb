#pragma once

#include <algorithm>
#include <limits>

#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/score_kernels.hpp"

// Softmax weights of few queries, with keys for lanes, over a vector type V. See scalar_vector.hpp
// about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// A panel of queries would have most of its lanes empty. Squares of keys and terms are transposed
// in registers instead: an element is the same sum in the same order.
template <class V, class Products>
struct FewWeights {
  using T = typename V::value_type;
  using Product = kernels::Product<T>;
  using Scores = ScoreKernels<V>;
  static constexpr index_t lanes = V::lanes;

  // One a lane; those beyond `count` are 0.
  struct Keys {
    const T* rows;
    const T* beside;  // null: nothing is fetched
    index_t stride, beside_stride, count;
  };

  // A square of keys and terms; nothing is fetched, unless `whole`.
  template <bool whole>
  static IOATTN_INLINE void load_square(const Keys& keys, index_t term, V (&x)[lanes]) {
    const T* const square = keys.rows + term;
    const index_t stride = keys.stride;
#pragma GCC unroll 16
    for (int j = 0; j < lanes; ++j) {
      x[j] = whole || j < keys.count ? V::load(square + j * stride) : V::splat(T(0));
      if (whole && lanes > 1) __builtin_prefetch(square + (lanes + j) * stride);
    }
    if (whole && lanes > 1 && keys.beside != nullptr) {
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j)
        __builtin_prefetch(keys.beside + j * keys.beside_stride + term, 0, 2);
    }
    V::transpose(x);
  }

  // Adds the products of terms [first, last) of the rows.
  template <bool whole, int queries>
  static IOATTN_INLINE void add_terms(const Keys& keys, index_t first, index_t last, const T* b,
                                      index_t b_row, V (&sum)[queries]) {
    const auto add_term = [&](V x) {
#pragma GCC unroll 4
      for (int i = 0; i < queries; ++i) sum[i] = V::fma(x, V::splat(b[i]), sum[i]);
      b += b_row;
    };
    index_t q = first;
    V x[lanes];
    for (; q + lanes <= last; q += lanes) {
      load_square<whole>(keys, q, x);
#pragma GCC unroll 16
      for (int k = 0; k < lanes; ++k) add_term(x[k]);
    }
    if (q == last) return;
    if (last >= lanes) {  // terms before them fill the square
      load_square<whole>(keys, last - lanes, x);
#pragma GCC unroll 1
      for (index_t k = q - (last - lanes); k < lanes; ++k) add_term(x[k]);
      return;
    }
    for (; q < last; ++q) {
      T term[lanes] = {};
      for (index_t j = 0; j < keys.count; ++j) term[j] = keys.rows[j * keys.stride + q];
      add_term(V::load(term));
    }
  }

  template <bool whole, int queries>
  static IOATTN_INLINE void scores(const Product& p, index_t first, V (&total)[queries]) {
    const T* const beside = p.beside == nullptr ? nullptr : p.beside + first * p.beside_row;
    const Keys keys = {p.a.at(first, 0), beside, p.a.row, p.beside_row,
                       std::min(p.rows - first, lanes)};
    by_terms(p, terms_at_once<T, T, false>, [&](const Product& some) {
      V sum[queries];
#pragma GCC unroll 4
      for (V& each : sum) each = V::splat(T(0));
      const index_t term = some.a.data - p.a.data;
      add_terms<whole>(keys, term, term + some.depth, some.b.data, some.b.row, sum);
#pragma GCC unroll 4
      for (int i = 0; i < queries; ++i) total[i] = term > 0 ? total[i] + sum[i] : sum[i];
    });
  }

  // Elements of a column of C.
  static IOATTN_INLINE void store(V x, T* to, index_t stride, index_t count) {
    if (stride == 1 && count == lanes) {
      x.store(to);
      return;
    }
    T each[lanes];
    x.store(each);
    for (index_t j = 0; j < count; ++j) to[j * stride] = each[j];
  }
  static IOATTN_INLINE V load(const T* from, index_t stride, index_t count) {
    if (stride == 1 && count == lanes) return V::load(from);
    T each[lanes] = {};
    for (index_t j = 0; j < count; ++j) each[j] = from[j * stride];
    return V::load(each);
  }
  static IOATTN_INLINE T first_of(V x) {
    T each[lanes];
    x.store(each);
    return each[0];
  }

  // The largest score of a query, or `largest`.
  static IOATTN_INLINE T largest_of(const T* column, index_t stride, index_t keys, T largest) {
    index_t j = 0;
    if (stride == 1 && keys >= lanes) {
      V x = V::load(column);
      for (j = lanes; j + lanes <= keys; j += lanes) x = V::max(x, V::load(column + j));
      T each[lanes];
      x.store(each);
      for (const T score : each) largest = score > largest ? score : largest;
    }
    for (; j < keys; ++j) largest = column[j * stride] > largest ? column[j * stride] : largest;
    return largest;
  }

  // Of a query, whose scores become weights.
  static IOATTN_INLINE void weigh(T* column, index_t stride, index_t keys, T* row_max, T* row_sum,
                                  T* rescale) {
    const T old_max = *row_max;
    const T largest = largest_of(column, stride, keys, old_max);
    const T new_max = first_of(Scores::new_max(V::splat(old_max), V::splat(largest)));
    const T shift = new_max > -std::numeric_limits<T>::infinity() ? new_max : T(0);
    const T factor = first_of(exponential_below<V>(V::splat(old_max - shift)));
    constexpr index_t most = Scores::weights_per_sum;
    T total = 0;
    for (index_t first = 0; first < keys; first += lanes) {
      T* const to = column + first * stride;
      const index_t count = std::min(keys - first, lanes);
      store(exponential_below(load(to, stride, count) - V::splat(shift)), to, stride, count);
    }
    for (index_t first = 0; first < keys; first += most) {
      T part = 0;
      for (index_t j = first; j < std::min(keys, first + most); ++j) part += column[j * stride];
      total += part;
    }
    *row_max = new_max;
    *row_sum = *row_sum * factor + total;
    *rescale = factor;
  }

  template <int queries>
  static IOATTN_INLINE void weights_of(const Product& p, T* row_max, T* row_sum, T* rescale) {
    const auto store_scores = [&](index_t first, const V(&sum)[queries]) {
      const index_t count = std::min(p.rows - first, lanes);
      for (index_t i = 0; i < p.cols; ++i) store(sum[i], p.c.row_of(0, first) + i, p.c.row, count);
    };
    V sum[queries] = {};
    index_t first = 0;
    for (; first + lanes <= p.rows; first += lanes) {
      scores<true>(p, first, sum);
      store_scores(first, sum);
    }
    if (first < p.rows) {
      scores<false>(p, first, sum);
      store_scores(first, sum);
    }
    for (index_t i = 0; i < p.cols; ++i)
      weigh(p.c.data + i, p.c.row, p.rows, row_max + i, row_sum + i, rescale + i);
  }

  // Of more, the lanes of a panel are no longer as empty as that.
  static constexpr index_t most_queries = std::max<index_t>(1, lanes / 4);

  static IOATTN_KERNEL void weights(const Product& p, T* row_max, T* row_sum, T* rescale) {
    static_assert(most_queries <= 4);
    if constexpr (most_queries > 2) {
      if (p.cols > 2) return weights_of<4>(p, row_max, row_sum, rescale);
    }
    if constexpr (most_queries > 1) {
      if (p.cols > 1) return weights_of<2>(p, row_max, row_sum, rescale);
    }
    weights_of<1>(p, row_max, row_sum, rescale);
  }
};

}  // namespace
}  // namespace ioattn::kernels
