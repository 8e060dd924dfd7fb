#include "kernels/generic/scalar_vector.hpp"
#include "kernels/generic/tile_kernels.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr KernelTable<float> f32 = TileKernels<ScalarVector<float>, 4, 4>::table(Isa::scalar);
constexpr KernelTable<double> f64 = TileKernels<ScalarVector<double>, 4, 4>::table(Isa::scalar);
}  // namespace

const Kernels scalar_kernels = {Isa::scalar, &f32, &f64};

}  // namespace ioattn::kernels
