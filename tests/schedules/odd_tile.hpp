#pragma once

#include "kernels/kernel_table.hpp"

namespace ioattn_test {

// Kernels with a 3 x 5 tile of scalars: no size that a schedule rounds to divides its blocks, so
// mistakes in tails and paddings show on every machine.
template <class T>
const ioattn::kernels::KernelTable<T>& odd_tile();

// With products of pairs.
const ioattn::kernels::KernelTable<float>& odd_tile_of_pairs();

}  // namespace ioattn_test
