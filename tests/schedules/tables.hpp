#pragma once

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "schedules/odd_tile.hpp"

namespace ioattn_test {

// The kernels that schedules are tested with: the odd tile and those of every instruction set of
// this CPU. With IOATTN_ISA those of that one alone; the test fails if the CPU lacks it.
template <class S>
std::vector<const ioattn::kernels::KernelTable<ioattn::Compute<S>>*> tables_under_test() {
  using T = ioattn::Compute<S>;
  namespace kernels = ioattn::kernels;
  const ioattn::IsaSet cpu = ioattn::machine::this_machine().isa;
  const char* const name = std::getenv("IOATTN_ISA");
  if (name != nullptr && *name != '\0') {
    const kernels::Kernels* only = nullptr;
    const ioattn::Status status = kernels::select_kernels(cpu, name, &only);
    if (!status.is_ok()) throw std::runtime_error(status.message());
    return {&only->table<S>()};
  }
  std::vector<const kernels::KernelTable<T>*> tables = {&odd_tile<T>()};
  for (const kernels::Kernels* each : kernels::all_kernels())
    if (cpu.has(each->isa) &&
        std::find(tables.begin(), tables.end(), &each->table<S>()) == tables.end())
      tables.push_back(&each->table<S>());
  return tables;
}

}  // namespace ioattn_test
