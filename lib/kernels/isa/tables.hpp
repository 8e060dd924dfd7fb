#pragma once

#include "kernels/registry.hpp"

namespace ioattn::kernels {

// All that each ISA's object exports.
extern const Kernels scalar_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
extern const Kernels avx512_bf16_kernels;
extern const Kernels neon_kernels;
extern const Kernels emulated_bf16_kernels;
extern const Kernels avx512_amx_kernels;
extern const Kernels emulated_amx_kernels;

// A pair takes half as many loads as its two terms: fewer rows do.
inline constexpr int bf16_pairs_rows = 8;
extern const PairKernels avx512_bf16_pairs;
extern const PairKernels avx512_amx_pairs;

}  // namespace ioattn::kernels
