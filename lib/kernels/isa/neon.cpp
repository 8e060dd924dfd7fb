#include "kernels/generic/neon_vector.hpp"
#include "kernels/generic/tile_kernels.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr KernelTable<float> f32 = TileKernels<NeonVector<float>, 8, 2>::table(Isa::neon);
constexpr KernelTable<double> f64 = TileKernels<NeonVector<double>, 8, 2>::table(Isa::neon);
}  // namespace

const Kernels neon_kernels = {Isa::neon, &f32, &f64, &f32};

}  // namespace ioattn::kernels
