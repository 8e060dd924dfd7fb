#pragma once

#include "kernels/generic/few_weights.hpp"
#include "kernels/generic/pack_kernel.hpp"
#include "kernels/generic/product_kernel.hpp"
#include "kernels/generic/register_weights.hpp"
#include "kernels/generic/score_kernels.hpp"
#include "kernels/generic/storage_kernels.hpp"
#include "kernels/generic/transpose_kernel.hpp"
#include "kernels/kernel_table.hpp"

// All kernels over a vector type V (scalar_vector.hpp, xsimd_vector.hpp), compiled once per ISA.
// See scalar_vector.hpp about the anonymous namespace.
namespace ioattn::kernels {
namespace {

template <class V, int max_rows, int vectors, int wide_rows = 0>
struct TileKernels {
  using T = typename V::value_type;
  using Products = ProductKernel<V, max_rows, vectors, SingleTerms<V>, wide_rows>;
  static constexpr int nr = vectors * V::lanes;

  static IOATTN_KERNEL T fma_loop(index_t iterations) {
    typename Products::Tiles::template Accumulators<max_rows> acc;
    // Not constants: g++ folds a sum that it knows not to change, such as 1 * 0.999 + 0.001.
    const T first = static_cast<T>(iterations);
    for (int i = 0; i < max_rows; ++i)
      for (int v = 0; v < vectors; ++v)
        acc.value[i][v] = V::splat(first + static_cast<T>(i * vectors + v));
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

  // Conversion: how f32 comes from 16 bits and goes there.
  template <class Conversion = IntegerConversion>
  static constexpr KernelTable<T> table(Isa isa) {
    using Scores = ScoreKernels<V>;
    KernelTable<T> all = {TileShape{isa, max_rows, nr},
                          Products::product,
                          PackKernel<V, vectors>::pack,
                          TransposeKernel<V>::transpose,
                          Scores::exp_tile,
                          Scores::gradient_tile,
                          Scores::dot_tile,
                          Scores::softmax_update,
                          Scores::row_dot,
                          Scores::scale_rows,
                          Scores::are_finite,
                          fma_loop,
                          max_rows * nr,
                          Products::narrow > 0 ? Products::narrow * V::lanes : nr};
    all.few_weights = FewWeights<V, Products>::weights;
    all.few_queries = FewWeights<V, Products>::most_queries;
    // In 16 registers a tile leaves weights no room, and both take longer than one by one.
    if constexpr (V::powers > 1 && V::registers > 16)
      all.weights = RegisterWeights<V, max_rows, vectors, Products>::weights;
    if constexpr (std::is_same_v<T, float>) {
      all.of_bf16 = &StorageKernel<V, vectors, bf16, Conversion>::table;
      all.of_f16 = &StorageKernel<V, vectors, f16, Conversion>::table;
    }
    return all;
  }
};

}  // namespace
}  // namespace ioattn::kernels
