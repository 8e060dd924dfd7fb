#include "schedules/odd_tile.hpp"

#include "kernels/generic/emulated_pairs.hpp"
#include "kernels/generic/scalar_vector.hpp"
#include "kernels/generic/tile_kernels.hpp"

namespace ioattn_test {
namespace {
using ioattn::kernels::KernelTable;
using ioattn::kernels::ScalarVector;
using ioattn::kernels::TileKernels;
// Two panels at a time in tiles of two rows.
constexpr KernelTable<float> f32 =
    TileKernels<ScalarVector<float>, 3, 5, 2>::table(ioattn::Isa::scalar);
constexpr KernelTable<double> f64 =
    TileKernels<ScalarVector<double>, 3, 5, 2>::table(ioattn::Isa::scalar);
constexpr ioattn::kernels::PairKernels pairs =
    ioattn::kernels::EmulatedPairs<3, 5>::table_with_few();
constexpr KernelTable<float> of_pairs =
    f32.with_pairs({ioattn::Isa::emulated_bf16, f32.tile.rows, f32.tile.cols}, &pairs);
}  // namespace

const KernelTable<float>& odd_tile_of_pairs() { return of_pairs; }

template <>
const KernelTable<float>& odd_tile() {
  return f32;
}
template <>
const KernelTable<double>& odd_tile() {
  return f64;
}

}  // namespace ioattn_test
