#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/tile_kernels.hpp"
#include "kernels/generic/x86_conversion.hpp"
#include "kernels/generic/xsimd_vector.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr KernelTable<float> f32 =
    TileKernels<XsimdVector<float>, 6, 2>::table<X86Conversion>(Isa::avx2);
constexpr KernelTable<double> f64 = TileKernels<XsimdVector<double>, 6, 2>::table(Isa::avx2);
}  // namespace

const Kernels avx2_kernels = {Isa::avx2, &f32, &f64, &f32};

}  // namespace ioattn::kernels
