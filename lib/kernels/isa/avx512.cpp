#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/tile_kernels.hpp"
#include "kernels/generic/x86_conversion.hpp"
#include "kernels/generic/xsimd_vector.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr KernelTable<float> f32 =
    TileKernels<XsimdVector<float>, avx512_rows, 2, avx512_wide_rows>::table<X86Conversion>(
        Isa::avx512);
constexpr KernelTable<double> f64 =
    TileKernels<XsimdVector<double>, avx512_rows, 2, avx512_wide_rows>::table(Isa::avx512);
constexpr KernelTable<float> of_bf16 =
    f32.with_pairs({Isa::avx512_bf16, avx512_rows, f32.tile.cols}, &avx512_bf16_pairs);
constexpr KernelTable<float> of_tiles =
    f32.with_pairs({Isa::avx512_amx, avx512_rows, f32.tile.cols}, &avx512_amx_pairs);
}  // namespace

const Kernels avx512_kernels = {Isa::avx512, &f32, &f64, &f32};
const Kernels avx512_bf16_kernels = {Isa::avx512_bf16, &f32, &f64, &of_bf16};
const Kernels avx512_amx_kernels = {Isa::avx512_amx, &f32, &f64, &of_tiles};

}  // namespace ioattn::kernels
