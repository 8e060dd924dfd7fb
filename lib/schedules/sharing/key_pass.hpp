#pragma once

#include "base/schedule.hpp"
#include "kernels/kernel_table.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

// All blocks of keys of one problem, by ColStream or TileFused, perhaps of pairs.
template <class Pass, class T, class Operands>
void run_key_pass(const Pass& pass, int threads, const kernels::KernelTable<T>& kernels,
                  const Trace& trace, const Operands& operands, void* workspace,
                  const kernels::PairKernels* pairs = nullptr) {
  pass.prepare(kernels, trace, operands, 0, workspace);
  for_each_block(
      threads, 1, pass.block_count(), [&](int worker) { pass.begin(kernels, worker, workspace); },
      [&](index_t, index_t block, int worker) {
        pass.run_block(kernels, trace, operands, 0, block, worker, workspace);
      },
      pairs);
}

}  // namespace ioattn::schedules
