#pragma once

#include "kernels/generic/exponential.hpp"
#include "kernels/kernel_table.hpp"

// The bodies of all kernels over a vector type V (scalar_vector.hpp, xsimd_vector.hpp), compiled
// once per ISA. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

#define IOATTN_KERNEL __attribute__((flatten, noinline))
#define IOATTN_INLINE inline __attribute__((always_inline))

// Longest sum that one accumulator takes: error grows with 256 + depth/256 instead of depth.
constexpr index_t terms_per_accumulator = 256;

template <class V, int max_rows, int vectors>
struct TileKernels {
  using T = typename V::value_type;
  static constexpr int nr = vectors * V::lanes;

  template <int rows>
  struct Accumulators {
    V value[rows][vectors];
  };

  // acc = A B over `depth` terms. `a_unit_row`: rows of A are adjacent (a_row = 1), else its terms
  // are.
  template <int rows, bool a_unit_row>
  static IOATTN_INLINE void multiply(const T* a, index_t a_stride, const T* b, index_t b_row,
                                     index_t depth, Accumulators<rows>& acc) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) acc.value[i][v] = V::splat(T(0));
    for (index_t q = 0; q < depth; ++q) {
      V lane[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) lane[v] = V::load(b + q * b_row + v * V::lanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const V scalar = V::splat(a_unit_row ? a[q * a_stride + i] : a[i * a_stride + q]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
          acc.value[i][v] = V::fma(scalar, lane[v], acc.value[i][v]);
      }
    }
  }

  // The same for any depth: blocks of terms are summed apart and then added in order.
  template <int rows, bool a_unit_row>
  static IOATTN_INLINE void multiply_blocked(const T* a, index_t a_stride, const T* b,
                                             index_t b_row, index_t depth,
                                             Accumulators<rows>& acc) {
    if (depth <= terms_per_accumulator) {
      multiply<rows, a_unit_row>(a, a_stride, b, b_row, depth, acc);
      return;
    }
    T total[rows][nr] = {};
    for (index_t q = 0; q < depth; q += terms_per_accumulator) {
      const index_t terms = depth - q < terms_per_accumulator ? depth - q : terms_per_accumulator;
      multiply<rows, a_unit_row>(a + (a_unit_row ? q * a_stride : q), a_stride, b + q * b_row,
                                 b_row, terms, acc);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          T* sum = total[i] + v * V::lanes;
          acc.value[i][v] = V::load(sum) + acc.value[i][v];
          acc.value[i][v].store(sum);
        }
    }
  }

  template <int rows>
  static IOATTN_INLINE void finish(const Product<T>& p, index_t row, const T* lane,
                                   const Accumulators<rows>& acc, T* c, index_t c_row) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const V scale = V::splat(p.row_scale != nullptr ? p.row_scale[row + i] : T(1));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        T* target = c + i * c_row + v * V::lanes;
        V x = acc.value[i][v];
        if (p.accumulate) {
          x = p.row_scale != nullptr ? V::fma(V::load(target), scale, x) : V::load(target) + x;
        }
        if (p.epilogue != Epilogue::none) {
          x = x - (p.row != nullptr ? V::splat(p.row[row + i]) : V::load(lane + v * V::lanes));
          x = p.epilogue == Epilogue::exp ? exponential(x) : V::load(target) * x;
        }
        x.store(target);
      }
    }
  }

  template <int rows, bool a_unit_row>
  static IOATTN_KERNEL void tile(const Product<T>& p, index_t row, index_t col) {
    const index_t panel = col / nr;
    Accumulators<rows> acc;
    multiply_blocked<rows, a_unit_row>(p.a + row * p.a_row, a_unit_row ? p.a_depth : p.a_row,
                                       p.b + panel * p.b_panel, p.b_row, p.depth, acc);
    T* c = p.c + panel * p.c_panel + row * p.c_row;
    const T* lane = p.lane + (p.lane != nullptr ? col : 0);
    const index_t columns = p.cols - col;
    if (columns >= nr || p.padded) {
      finish<rows>(p, row, lane, acc, c, p.c_row);
      return;
    }
    T edge[rows][nr] = {};
    if (p.accumulate || p.epilogue == Epilogue::gradient) {
      for (int i = 0; i < rows; ++i)
        for (index_t j = 0; j < columns; ++j) edge[i][j] = c[i * p.c_row + j];
    }
    finish<rows>(p, row, lane, acc, &edge[0][0], nr);
    for (int i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j) c[i * p.c_row + j] = edge[i][j];
  }

  // The rows that are left when whole tiles are done.
  template <int rows, bool a_unit_row>
  static void tail(const Product<T>& p, index_t row, index_t col) {
    if constexpr (rows > 0) {
      if (p.rows - row == rows) {
        tile<rows, a_unit_row>(p, row, col);
      } else {
        tail<rows - 1, a_unit_row>(p, row, col);
      }
    }
  }

  template <bool a_unit_row>
  static void all_tiles(const Product<T>& p) {
    for (index_t col = 0; col < p.cols; col += nr) {
      index_t row = 0;
      for (; row + max_rows <= p.rows; row += max_rows) tile<max_rows, a_unit_row>(p, row, col);
      tail<max_rows - 1, a_unit_row>(p, row, col);
    }
  }

  static void product(const Product<T>& p) {
    if (p.a_row == 1) {
      all_tiles<true>(p);
    } else {
      all_tiles<false>(p);
    }
  }

  static IOATTN_KERNEL void pack(const T* src, index_t lane_stride, index_t depth_stride,
                                 index_t lanes, index_t depth, T* dst) {
    if (depth == 0) return;  // there may be no memory behind src
    for (index_t first = 0; first < lanes; first += nr, dst += depth * nr) {
      const T* panel = src + first * lane_stride;
      const index_t width = lanes - first < nr ? lanes - first : nr;
      if (width == nr && lane_stride == 1) {
        for (index_t q = 0; q < depth; ++q)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v)
            V::load(panel + q * depth_stride + v * V::lanes).store(dst + q * nr + v * V::lanes);
      } else if (width == nr) {
        for (index_t q = 0; q < depth; ++q)
          for (int j = 0; j < nr; ++j) dst[q * nr + j] = panel[j * lane_stride + q * depth_stride];
      } else {
        for (index_t q = 0; q < depth; ++q) {
          for (index_t j = 0; j < width; ++j)
            dst[q * nr + j] = panel[j * lane_stride + q * depth_stride];
          for (index_t j = width; j < nr; ++j) dst[q * nr + j] = T(0);
        }
      }
    }
  }

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
    Accumulators<max_rows> acc;
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
            product,
            pack,
            exp_tile,
            gradient_tile,
            dot_tile,
            softmax_update,
            row_dot,
            fma_loop,
            max_rows * nr};
  }
};

#undef IOATTN_KERNEL
#undef IOATTN_INLINE

}  // namespace
}  // namespace ioattn::kernels
