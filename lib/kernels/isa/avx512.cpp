#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/tile_kernels.hpp"
#include "kernels/generic/x86_conversion.hpp"
#include "kernels/generic/x86_half_vector.hpp"
#include "kernels/generic/xsimd_vector.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
template <class T, int wide_rows>
using Tiles = TileKernels<XsimdVector<T>, avx512_rows, 2, wide_rows>;

constexpr KernelTable<float> f32 =
    Tiles<float, avx512_wide_rows>::table<X86Conversion>(Isa::avx512);
constexpr KernelTable<double> f64 = Tiles<double, avx512_wide_rows>::table(Isa::avx512);

// For CPUs that take vectors at once, and sums beside multiply-adds: a first block weighed beside
// its product takes less time there, and exp of f32 by more operations of which fewer multiply.
// CPUs that take them by halves, and those with AMX, have no such places for all of them.
template <class T>
constexpr KernelTable<T> at_once(KernelTable<T> table) {
  table.first_keys = 32;
  if constexpr (sizeof(T) == 4) {
    using Products = typename Tiles<T, avx512_wide_rows>::Products;
    table.weights = RegisterWeights<XsimdVector<T>, avx512_rows, 2, Products, true>::weights;
  }
  return table;
}
constexpr KernelTable<float> f32_at_once = at_once(f32);
constexpr KernelTable<double> f64_at_once = at_once(f64);

// For CPUs that take them by halves: products alone are others.
template <class T>
constexpr KernelTable<T> in_halves(KernelTable<T> table) {
  using V = XsimdVector<T>;
  using Half = X86HalfVector<T>;
  using Rest = RegisterTiles<Half, 4, CutTerms<Half>>;
  table.product =
      ProductKernel<V, avx512_rows, 2, SingleTerms<V>, avx512_wide_rows_in_halves, Rest>::product;
  table.least_columns = Half::lanes;
  return table;
}
constexpr KernelTable<float> f32_in_halves = in_halves(f32);
constexpr KernelTable<double> f64_in_halves = in_halves(f64);

constexpr TileShape shape_for(Isa isa) { return {isa, avx512_rows, f32.tile.cols}; }
constexpr KernelTable<float> of_bf16 =
    f32_at_once.with_pairs(shape_for(Isa::avx512_bf16), &avx512_bf16_pairs);
constexpr KernelTable<float> of_bf16_in_halves =
    f32_in_halves.with_pairs(shape_for(Isa::avx512_bf16), &avx512_bf16_pairs_in_halves);

constexpr KernelTable<float> of_tiles =
    f32.with_pairs(shape_for(Isa::avx512_amx), &avx512_amx_pairs);

constexpr Kernels kernels_in_halves = {Isa::avx512, &f32_in_halves, &f64_in_halves, &f32_in_halves};
constexpr Kernels bf16_kernels_in_halves = {Isa::avx512_bf16, &f32_in_halves, &f64_in_halves,
                                            &of_bf16_in_halves};
}  // namespace

const Kernels avx512_kernels = {Isa::avx512, &f32_at_once, &f64_at_once, &f32_at_once,
                                &kernels_in_halves};
const Kernels avx512_bf16_kernels = {Isa::avx512_bf16, &f32_at_once, &f64_at_once, &of_bf16,
                                     &bf16_kernels_in_halves};
const Kernels avx512_amx_kernels = {Isa::avx512_amx, &f32, &f64, &of_tiles};

}  // namespace ioattn::kernels
