#pragma once

#include "kernels/registry.hpp"

namespace ioattn::kernels {

// The one symbol that each ISA's object exports.
extern const Kernels scalar_kernels;
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
extern const Kernels neon_kernels;

}  // namespace ioattn::kernels
