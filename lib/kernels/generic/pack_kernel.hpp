#pragma once

#include "kernels/generic/inlining.hpp"

// Packing into panels over a vector type V. See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

// From a square that is transposed, lanes by terms from q on, to the one some squares later, which
// is fetched: of the same lanes, and then of the next panel's.
IOATTN_INLINE index_t to_later_square(index_t q, index_t terms, index_t depth, index_t next_panel) {
  const index_t ahead = 4 * terms;
  return q + ahead < depth ? ahead : next_panel + ahead - depth;
}

template <class V, int vectors>
struct PackKernel {
  using T = typename V::value_type;
  static constexpr int nr = vectors * V::lanes;

  // Terms [first, depth) of a panel whose first `width` lanes exist, one by one.
  static IOATTN_INLINE void pack_elements(const T* src, index_t lane_stride, index_t depth_stride,
                                          index_t width, index_t first, index_t depth, T* dst) {
    for (index_t q = first; q < depth; ++q) {
      for (index_t j = 0; j < width; ++j) dst[q * nr + j] = src[j * lane_stride + q * depth_stride];
      for (index_t j = width; j < nr; ++j) dst[q * nr + j] = T(0);
    }
  }

  static constexpr index_t line = 64 / sizeof(T);

  // Rows of lanes, each into all the panels: where rows lie far apart only a whole row is a run of
  // lines, and it is fetched before its turn, into L2: rows a power of 2 apart share few sets of
  // L1.
  static IOATTN_INLINE void pack_adjacent_lanes(const T* src, index_t depth_stride, index_t panels,
                                                index_t depth, T* dst) {
    constexpr index_t ahead = 4;
    for (index_t q = 0; q < depth; ++q) {
      const T* row = src + q * depth_stride;
      const T* next = q + ahead < depth ? row + ahead * depth_stride : row;
      T* to = dst + q * nr;
      for (index_t p = 0; p < panels; ++p, row += nr, next += nr, to += depth * nr) {
        for (index_t k = 0; k < nr; k += line) __builtin_prefetch(next + k, 0, 2);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) V::load(row + v * V::lanes).store(to + v * V::lanes);
      }
    }
  }

  // Terms are adjacent: squares of V::lanes lanes and terms are transposed in registers. Lanes from
  // `width` on are zeros.
  template <bool whole>
  static IOATTN_INLINE void pack_adjacent_terms(const T* src, index_t lane_stride, index_t width,
                                                index_t depth, T* dst) {
    index_t q = 0;
    for (; q + V::lanes <= depth; q += V::lanes) {
      const index_t later = to_later_square(q, V::lanes, depth, nr * lane_stride);
      for (int v = 0; v < vectors; ++v) {
        const T* square = src + v * V::lanes * lane_stride + q;
        V x[V::lanes];
#pragma GCC unroll 16
        for (int j = 0; j < V::lanes; ++j) {
          const bool exists = whole || v * V::lanes + j < width;
          if (whole) __builtin_prefetch(square + later + j * lane_stride, 0, 2);
          x[j] = exists ? V::load(square + j * lane_stride) : V::splat(T(0));
        }
        V::transpose(x);
#pragma GCC unroll 16
        for (int k = 0; k < V::lanes; ++k) x[k].store(dst + (q + k) * nr + v * V::lanes);
      }
    }
    pack_elements(src, lane_stride, 1, width, q, depth, dst);
  }

  static IOATTN_KERNEL void pack(const T* src, index_t lane_stride, index_t depth_stride,
                                 index_t lanes, index_t depth, T* dst) {
    if (depth == 0) return;  // there may be no memory behind src
    index_t first = 0;
    if (lane_stride == 1) {
      const index_t panels = lanes / nr;
      pack_adjacent_lanes(src, depth_stride, panels, depth, dst);
      first = panels * nr;
      dst += first * depth;
    }
    for (; first < lanes; first += nr, dst += depth * nr) {
      const T* panel = src + first * lane_stride;
      const index_t width = lanes - first < nr ? lanes - first : nr;
      if (depth_stride != 1 || V::lanes == 1) {
        pack_elements(panel, lane_stride, depth_stride, width, 0, depth, dst);
      } else if (width == nr) {
        pack_adjacent_terms<true>(panel, lane_stride, width, depth, dst);
      } else {
        pack_adjacent_terms<false>(panel, lane_stride, width, depth, dst);
      }
    }
  }
};

}  // namespace
}  // namespace ioattn::kernels
