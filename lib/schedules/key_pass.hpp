#pragma once

#include "kernels/kernel_table.hpp"
#include "parallel/parallel.hpp"
#include "schedules/task.hpp"

namespace ioattn::schedules {

// All blocks of keys of one problem, by ColStream or TileFused.
template <class Pass, class T, class Operands>
void run_key_pass(const Pass& pass, int threads, const kernels::KernelTable<T>& kernels,
                  const Trace& trace, const Operands& operands, void* workspace) {
  pass.prepare(kernels, trace, operands, 0, workspace);
  parallel::for_each(
      threads, pass.block_count(), [&](int worker) { pass.begin(kernels, worker, workspace); },
      [&](index_t block, int worker) {
        pass.run_block(kernels, trace, operands, 0, block, worker, workspace);
      });
}

}  // namespace ioattn::schedules
