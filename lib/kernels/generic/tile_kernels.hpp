#pragma once

#include "kernels/generic/exponential.hpp"
#include "kernels/generic/inlining.hpp"
#include "kernels/generic/pack_kernel.hpp"
#include "kernels/generic/product_kernel.hpp"
#include "kernels/kernel_table.hpp"

// The bodies of all kernels over a vector type V (scalar_vector.hpp, xsimd_vector.hpp), compiled
// once per ISA. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

template <class V, int max_rows, int vectors>
struct TileKernels {
  using T = typename V::value_type;
  static constexpr int nr = vectors * V::lanes;

  // Vectors over the last queries of a tile, which may be fewer than V::lanes.
  static IOATTN_INLINE V load_lanes(const T* p, index_t count) {
    if (count >= V::lanes) return V::load(p);
    T lanes[V::lanes] = {};
    for (index_t v = 0; v < count; ++v) lanes[v] = p[v];
    return V::load(lanes);
  }
  static IOATTN_INLINE void store_lanes(V x, T* p, index_t count) {
    if (count >= V::lanes) {
      x.store(p);
      return;
    }
    T lanes[V::lanes];
    x.store(lanes);
    for (index_t v = 0; v < count; ++v) p[v] = lanes[v];
  }

  static IOATTN_KERNEL void exp_tile(const ScoreTile<T>& tile, const T* lse) {
    for (index_t i = 0; i < tile.queries; i += V::lanes) {
      const index_t left = tile.queries - i;
      const V shift = load_lanes(lse + i, left);
      for (index_t j = 0; j < tile.keys; ++j) {
        T* x = tile.data + j * tile.stride + i;
        store_lanes(exponential(load_lanes(x, left) - shift), x, left);
      }
    }
  }

  static IOATTN_KERNEL void gradient_tile(const ScoreTile<T>& f, const ScoreTile<T>& q,
                                          const T* delta, const ScoreTile<T>& p) {
    for (index_t i = 0; i < f.queries; i += V::lanes) {
      const index_t left = f.queries - i;
      const V shift = load_lanes(delta + i, left);
      for (index_t j = 0; j < f.keys; ++j) {
        const V weight = load_lanes(f.data + j * f.stride + i, left);
        const V score = load_lanes(q.data + j * q.stride + i, left);
        store_lanes(weight * (score - shift), p.data + j * p.stride + i, left);
      }
    }
  }

  static IOATTN_KERNEL void dot_tile(const ScoreTile<T>& f, const ScoreTile<T>& q, T* sum) {
    for (index_t i = 0; i < f.queries; i += V::lanes) {
      const index_t left = f.queries - i;
      V total = load_lanes(sum + i, left);
      for (index_t first = 0; first < f.keys; first += terms_per_accumulator) {
        const index_t last =
            f.keys - first < terms_per_accumulator ? f.keys : first + terms_per_accumulator;
        V part = V::splat(T(0));
        for (index_t j = first; j < last; ++j)
          part = V::fma(load_lanes(f.data + j * f.stride + i, left),
                        load_lanes(q.data + j * q.stride + i, left), part);
        total = total + part;
      }
      store_lanes(total, sum + i, left);
    }
  }

  static IOATTN_KERNEL void softmax_update(const ScoreTile<T>& tile, bool store, T* row_max,
                                           T* row_sum, T* rescale) {
    const V minus_infinity = V::splat(static_cast<T>(-__builtin_inf()));
    for (index_t i = 0; i < tile.queries; i += V::lanes) {
      const index_t left = tile.queries - i;
      const V old_max = load_lanes(row_max + i, left);
      V new_max = old_max;
      for (index_t j = 0; j < tile.keys; ++j)
        new_max = V::max(new_max, load_lanes(tile.data + j * tile.stride + i, left));
      // Rows that have seen only -inf: shift by 0, so that exp(-inf - shift) is 0 and not NaN.
      const V shift = V::select_less(minus_infinity, new_max, new_max, V::splat(T(0)));
      const V factor = exponential(old_max - shift);
      V total = load_lanes(row_sum + i, left) * factor;
      for (index_t first = 0; first < tile.keys; first += terms_per_accumulator) {
        const index_t last =
            tile.keys - first < terms_per_accumulator ? tile.keys : first + terms_per_accumulator;
        V part = V::splat(T(0));
        for (index_t j = first; j < last; ++j) {
          T* x = tile.data + j * tile.stride + i;
          const V weight = exponential(load_lanes(x, left) - shift);
          if (store) store_lanes(weight, x, left);
          part = part + weight;
        }
        total = total + part;
      }
      store_lanes(new_max, row_max + i, left);
      if (rescale != nullptr) store_lanes(factor, rescale + i, left);
      store_lanes(total, row_sum + i, left);
    }
  }

  static IOATTN_KERNEL void row_dot(index_t rows, index_t cols, const T* x, index_t x_stride,
                                    const T* y, index_t y_stride, T* out) {
    for (index_t i = 0; i < rows; ++i, x += x_stride, y += y_stride) {
      T total = 0;
      for (index_t first = 0; first < cols; first += terms_per_accumulator) {
        const index_t last =
            cols - first < terms_per_accumulator ? cols : first + terms_per_accumulator;
        V sum = V::splat(T(0));
        index_t k = first;
        for (; k + V::lanes <= last; k += V::lanes)
          sum = V::fma(V::load(x + k), V::load(y + k), sum);
        T lanes[V::lanes];
        sum.store(lanes);
        T part = 0;
        for (; k < last; ++k) part += x[k] * y[k];
        for (int v = 0; v < V::lanes; ++v) part += lanes[v];
        total += part;
      }
      out[i] = total;
    }
  }

  static IOATTN_KERNEL T fma_loop(index_t iterations) {
    typename ProductKernel<V, max_rows, vectors>::template Accumulators<max_rows> acc;
    for (int i = 0; i < max_rows; ++i)
      for (int v = 0; v < vectors; ++v)
        acc.value[i][v] = V::splat(T(1) + static_cast<T>(i * vectors + v));
    const V x = V::splat(T(0.999));
    const V y = V::splat(T(0.001));
    for (index_t k = 0; k < iterations; ++k)
#pragma GCC unroll 16
      for (int i = 0; i < max_rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) acc.value[i][v] = V::fma(acc.value[i][v], x, y);
    V sum = V::splat(T(0));
    for (int i = 0; i < max_rows; ++i)
      for (int v = 0; v < vectors; ++v) sum = sum + acc.value[i][v];
    T lanes[V::lanes];
    sum.store(lanes);
    T total = 0;
    for (int v = 0; v < V::lanes; ++v) total += lanes[v];
    return total;
  }

  static constexpr KernelTable<T> table(Isa isa) {
    return {TileShape{isa, max_rows, nr},
            ProductKernel<V, max_rows, vectors>::product,
            PackKernel<V, vectors>::pack,
            exp_tile,
            gradient_tile,
            dot_tile,
            softmax_update,
            row_dot,
            fma_loop,
            max_rows * nr};
  }
};

}  // namespace
}  // namespace ioattn::kernels
