#pragma once

#include "base/isa.hpp"

namespace ioattn::kernels {

// The register tile of a product kernel: rows are scalars that are broadcast, columns are SIMD lanes.
struct TileShape {
  Isa isa = Isa::scalar;
  int rows = 4;
  int cols = 4;
};

}  // namespace ioattn::kernels
