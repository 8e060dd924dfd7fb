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

  static IOATTN_INLINE void step(const T** pointer, index_t by) {
    Products::Tiles::step(pointer, by);
  }

  // One a lane; those beyond `count` are 0.
  struct Keys {
    const T* rows;
    const T* beside;  // null: nothing is fetched
    index_t stride, beside_stride, count;
  };

  // A square of keys and terms; nothing is fetched, unless `whole`.
  template <bool whole>
  static IOATTN_INLINE void load_square(const Keys& keys, index_t term, V (&x)[lanes]) {
    const T* row = keys.rows + term;
    const T* next = row + lanes * keys.stride;
#pragma GCC unroll 16
    for (int j = 0; j < lanes; ++j) {
      x[j] = whole || j < keys.count ? V::load(row) : V::splat(T(0));
      step(&row, keys.stride);
      if (!whole || lanes == 1) continue;
      __builtin_prefetch(next);
      step(&next, keys.stride);
    }
    if (whole && lanes > 1 && keys.beside != nullptr) {
      const T* beside = keys.beside + term;
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j) {
        __builtin_prefetch(beside, 0, 2);
        step(&beside, keys.beside_stride);
      }
    }
    V::transpose(x);
  }

  // Adds the products of terms [first, last) of the rows.
  template <bool whole, int queries>
  static IOATTN_INLINE void add_terms(const Keys& keys, index_t first, index_t last, const T* b,
                                      index_t b_row, V (&sum)[queries]) {
    const auto add_term = [&](V x, const T* of) {
#pragma GCC unroll 4
      for (int i = 0; i < queries; ++i) sum[i] = V::fma(x, V::splat(of[i]), sum[i]);
    };
    index_t q = first;
    V x[lanes];
    for (; q + lanes <= last; q += lanes) {
      load_square<whole>(keys, q, x);
      const T* of = b;
#pragma GCC unroll 16
      for (int k = 0; k < lanes; ++k) {
        add_term(x[k], of);
        step(&of, b_row);
      }
      b = of;
    }
    if (q == last) return;
    if (last >= lanes) {  // terms before them fill the square
      load_square<whole>(keys, last - lanes, x);
#pragma GCC unroll 1
      for (index_t k = q - (last - lanes); k < lanes; ++k, b += b_row) add_term(x[k], b);
      return;
    }
    for (; q < last; ++q, b += b_row) {
      T term[lanes] = {};
      for (index_t j = 0; j < keys.count; ++j) term[j] = keys.rows[j * keys.stride + q];
      add_term(V::load(term), b);
    }
  }

  // Scores of the keys from `first` on go to rows of `stride`, one a query.
  template <bool whole, int queries>
  static IOATTN_INLINE void make_scores(const Product& p, index_t first, T* made, index_t stride) {
    const T* const beside = p.beside == nullptr ? nullptr : p.beside + first * p.beside_row;
    const Keys keys = {p.a.at(first, 0), beside, p.a.row, p.beside_row,
                       std::min(p.rows - first, lanes)};
    V total[queries] = {};
    by_terms(p, terms_at_once<T, T, false>, [&](const Product& some) {
      V sum[queries];
#pragma GCC unroll 4
      for (V& each : sum) each = V::splat(T(0));
      const index_t term = some.a.data - p.a.data;
      add_terms<whole>(keys, term, term + some.depth, some.b.data, some.b.row, sum);
#pragma GCC unroll 4
      for (int i = 0; i < queries; ++i) total[i] = term > 0 ? total[i] + sum[i] : sum[i];
    });
#pragma GCC unroll 4
    for (int i = 0; i < queries; ++i) total[i].store(made + i * stride + first);
  }

  // Scores of a query, -inf behind them to the end of the last vector, from L1.
  static IOATTN_INLINE T largest_of(const T* scores, index_t keys, T largest) {
    V x = V::load(scores);
    for (index_t j = lanes; j < keys; j += lanes) x = V::max(x, V::load(scores + j));
    T each[lanes];
    x.store(each);
    for (const T score : each) largest = score > largest ? score : largest;
    return largest;
  }
  static IOATTN_INLINE T first_of(V x) {
    T each[lanes];
    x.store(each);
    return each[0];
  }

  // Scores of a query become weights, which go to a column of C, unless they are there.
  template <bool in_place>
  static IOATTN_INLINE void weigh(T* scores, index_t keys, T* column, index_t stride, T* row_max,
                                  T* row_sum, T* rescale) {
    const T old_max = *row_max;
    const T largest = largest_of(scores, keys, old_max);
    const T new_max = first_of(Scores::new_max(V::splat(old_max), V::splat(largest)));
    const T shift = new_max > -std::numeric_limits<T>::infinity() ? new_max : T(0);
    const T factor = first_of(exponential_below<V>(V::splat(old_max - shift)));
    for (index_t j = 0; j < keys; j += lanes)
      exponential_below(V::load(scores + j) - V::splat(shift)).store(scores + j);
    constexpr index_t most = Scores::weights_per_sum;
    T total = 0;
    for (index_t first = 0; first < keys; first += most) {
      T part = 0;
      for (index_t j = first; j < std::min(keys, first + most); ++j) {
        part += scores[j];
        if (!in_place) column[j * stride] = scores[j];
      }
      total += part;
    }
    *row_max = new_max;
    *row_sum = *row_sum * factor + total;
    *rescale = factor;
  }

  template <int queries, bool in_place>
  static IOATTN_INLINE void weights_of(const Product& p, T* row_max, T* row_sum, T* rescale) {
    constexpr index_t most = KernelTable<T>::most_keys_of_few;
    static_assert(most % lanes == 0);
    alignas(64) T beside[queries * most];
    T* const made = in_place ? p.c.data : beside;
    index_t first = 0;
    for (; first + lanes <= p.rows; first += lanes)
      make_scores<true, queries>(p, first, made, most);
    if (first < p.rows) {
      make_scores<false, queries>(p, first, made, most);
      for (int i = 0; i < queries; ++i)
        for (index_t j = p.rows; j < first + lanes; ++j)
          made[i * most + j] = -std::numeric_limits<T>::infinity();
    }
    for (index_t i = 0; i < p.cols; ++i) {
      weigh<in_place>(made + i * most, p.rows, p.c.data + i, p.c.row, row_max + i, row_sum + i,
                      rescale + i);
    }
  }

  // Of more, the lanes of a panel are no longer as empty as that.
  static constexpr index_t most_queries = std::max<index_t>(1, lanes / 4);

  static IOATTN_KERNEL void weights(const Product& p, T* row_max, T* row_sum, T* rescale) {
    static_assert(most_queries <= 4);
    if constexpr (most_queries > 2) {
      if (p.cols > 2) return weights_of<4, false>(p, row_max, row_sum, rescale);
    }
    if constexpr (most_queries > 1) {
      if (p.cols > 1) return weights_of<2, false>(p, row_max, row_sum, rescale);
    }
    if (p.c.row == 1 && p.rows % lanes == 0) {
      weights_of<1, true>(p, row_max, row_sum, rescale);
    } else {
      weights_of<1, false>(p, row_max, row_sum, rescale);
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
