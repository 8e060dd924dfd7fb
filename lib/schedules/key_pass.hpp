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
  parallel::Dispenser blocks;
  const index_t count = pass.block_count();
  auto body = [&](int worker) {
    pass.begin(kernels, worker, workspace);
    for (index_t block = blocks.take(); block < count; block = blocks.take())
      pass.run_block(kernels, trace, operands, 0, block, worker, workspace);
  };
  parallel::run(threads, count, body);
}

}  // namespace ioattn::schedules
