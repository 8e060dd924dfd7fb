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

// Of a register tile: with two vectors each, 16 sums. Twelve are no faster on Zen 4.
inline constexpr int avx512_rows = 8;
// And by two panels: Intel's CPUs make fewer multiply-adds the more loads there are beside them.
inline constexpr int avx512_wide_rows = 6;
// Where vectors are taken by halves, passes of f32 and f64 take 0.98 to 0.995 of the time by fewer.
inline constexpr int avx512_wide_rows_in_halves = 4;
extern const PairKernels avx512_bf16_pairs;
extern const PairKernels avx512_bf16_pairs_in_halves;
extern const PairKernels avx512_amx_pairs;

}  // namespace ioattn::kernels
