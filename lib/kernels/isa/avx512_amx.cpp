// Clang 14 spells them otherwise.
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512BF16__) || \
    !(defined(__AMX_TILE__) || defined(__AMXTILE__)) ||                            \
    !(defined(__AMX_BF16__) || defined(__AMXBF16__))
#error "compile this file with the flags in lib/kernels/CMakeLists.txt"
#endif

#include "kernels/generic/tile_gradients.hpp"
#include "kernels/generic/x86_bf16_pairs.hpp"
#include "kernels/generic/x86_tiles.hpp"
#include "kernels/isa/tables.hpp"

namespace ioattn::kernels {

namespace {
using Pairs = X86Bf16Pairs<avx512_rows>;
}

const PairKernels avx512_amx_pairs =
    TileGradients<X86Tiles, XsimdVector<float>, Bf16Terms, Pairs>::table(Pairs::table);

}  // namespace ioattn::kernels
