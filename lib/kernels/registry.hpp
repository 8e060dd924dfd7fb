#pragma once

#include "base/isa.hpp"
#include "base/status.hpp"
#include "kernels/kernel_table.hpp"

namespace ioattn::kernels {

// The kernels of one ISA, for every dtype.
struct Kernels {
  Isa isa;
  const KernelTable<float>* f32;
  const KernelTable<double>* f64;

  template <class T>
  const KernelTable<T>& table() const;
};

// Best first, scalar last. An ISA that was not built is absent.
struct KernelList {
  const Kernels* begin_;
  int count;
  const Kernels* begin() const { return begin_; }
  const Kernels* end() const { return begin_ + count; }
};
KernelList all_kernels();

// nullptr if not built.
const Kernels* find_kernels(Isa isa);

// The first of all_kernels() that the CPU has; `override_name` (the value of IOATTN_ISA, may be null or
// empty) narrows the choice to that ISA and fails with `unsupported` if the CPU lacks it or it was not
// built, `invalid_argument` if there is no such name.
Status select_kernels(IsaSet cpu, const char* override_name, const Kernels** kernels);

// One thread's multiply-adds per second times 2, in flop/s, measured over about `seconds`.
double measure_fma_peak(const Kernels& kernels, DType dtype, double seconds);

}  // namespace ioattn::kernels
