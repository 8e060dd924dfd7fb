#include "kernels/generic/emulated_pairs.hpp"
#include "kernels/generic/emulated_tiles.hpp"
#include "kernels/generic/scalar_vector.hpp"
#include "kernels/generic/tile_gradients.hpp"
#include "kernels/generic/tile_kernels.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {
namespace {
constexpr KernelTable<float> f32 = TileKernels<ScalarVector<float>, 4, 4>::table(Isa::scalar);
constexpr KernelTable<double> f64 = TileKernels<ScalarVector<double>, 4, 4>::table(Isa::scalar);
constexpr PairKernels pairs = EmulatedPairs<4, 4>::table_with_few();
constexpr KernelTable<float> of_bf16 = f32.with_pairs({Isa::emulated_bf16, 4, 4}, &pairs);

// As many columns as two tiles. Of one row: more by so many lanes would take a minute to compile.
constexpr int wide = 2 * EmulatedTiles::side;
using WidePairs = EmulatedPairs<1, wide>;
constexpr KernelTable<float> wide_f32 =
    TileKernels<ScalarVector<float>, 1, wide>::table(Isa::scalar);
constexpr PairKernels pairs_of_tiles =
    TileGradients<EmulatedTiles, ScalarVector<float>, EmulatedTerms, WidePairs>::table(
        WidePairs::table);
constexpr KernelTable<float> of_tiles =
    wide_f32.with_pairs({Isa::emulated_amx, 4, wide}, &pairs_of_tiles);
}  // namespace

const Kernels scalar_kernels = {Isa::scalar, &f32, &f64, &f32};
const Kernels emulated_bf16_kernels = {Isa::emulated_bf16, &f32, &f64, &of_bf16};
const Kernels emulated_amx_kernels = {Isa::emulated_amx, &f32, &f64, &of_tiles};

}  // namespace ioattn::kernels
