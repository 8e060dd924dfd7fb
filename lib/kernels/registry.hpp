#pragma once

#include <type_traits>

#include "base/isa.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"

namespace ioattn::kernels {

// The kernels of one ISA, for every dtype.
struct Kernels {
  Isa isa;
  const KernelTable<float>* f32;
  const KernelTable<double>* f64;
  const KernelTable<float>* of_bf16;  // f32's, with products of pairs if the ISA has them
  // The same, with the same bits, for CPUs that compute 256 bits at a time; null: there are no
  // others.
  const Kernels* in_halves = nullptr;

  template <class S>
  const KernelTable<Compute<S>>& table() const {
    if constexpr (std::is_same_v<S, bf16>) {
      return *of_bf16;
    } else if constexpr (std::is_same_v<Compute<S>, float>) {
      return *f32;
    } else {
      return *f64;
    }
  }
  TileShape tile(DType dtype) const {
    return with_dtype(dtype, [this](auto x) { return table<decltype(x)>().tile; });
  }
  index_t least_columns(DType dtype) const {
    return with_dtype(dtype, [this](auto x) { return table<decltype(x)>().least_columns; });
  }
};

// What was built for some CPU, best first, scalar last.
struct KernelList {
  const Kernels* const* first;
  int count;
  const Kernels* const* begin() const { return first; }
  const Kernels* const* end() const { return first + count; }
};
KernelList all_kernels();

// nullptr if not built. Also those that are there on request alone. For a CPU that computes so many
// bits at a time; 0: it does not tell (machine/datapath.hpp).
const Kernels* find_kernels(Isa isa, int datapath_bits = 0);

// The first of all_kernels() that the CPU has; `override_name` (the value of IOATTN_ISA, may be
// null or empty) narrows the choice to that ISA and fails with `unsupported` if the CPU lacks it or
// it was not built, `invalid_argument` if there is no such name.
Status select_kernels(IsaSet cpu, const char* override_name, const Kernels** kernels);

// What one thread reaches when it does nothing but independent multiply-adds, in flop/s (2 per
// multiply-add; in 16 bits those of f32, unless products are of pairs): the best of several runs
// that together take about `seconds`.
double measure_fma_peak(const Kernels& kernels, DType dtype, double seconds);

}  // namespace ioattn::kernels
