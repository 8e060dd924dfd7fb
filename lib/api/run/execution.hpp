#pragma once

#include <algorithm>

#include "api/checks/layer_checks.hpp"
#include "api/kernels_in_use.hpp"
#include "base/overflow_counts.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/task.hpp"

namespace ioattn::api {

// How a pass is run as planned, on which its results do not depend.
struct Execution {
  int threads = 1;                            // at most
  Observer* observer = nullptr;               // makes the run sequential
  schedules::CallerMemory* memory = nullptr;  // of the workspace; null: the heap
  const kernels::Kernels* kernels = nullptr;  // of the plan's tile, in place of those of its ISA
  OverflowCounts* overflows = nullptr;        // of results that are rounded; null: nobody counts

  bool only_tells() const { return memory != nullptr && memory->only_tells(); }
};

// The same for operands S, by the kernels of a plan's ISA.
template <class S>
Status resolve(const Execution& execution, Isa isa, schedules::Execution<Compute<S>>* typed) {
  const kernels::Kernels* kernels = nullptr;
  const Status found = kernels_of(isa, &kernels);
  if (!found.is_ok()) return found;
  if (execution.kernels != nullptr) kernels = execution.kernels;
  typed->kernels = &kernels->table<S>();
  typed->threads = std::max(execution.threads, 1);
  typed->observer = execution.observer;
  typed->memory = execution.memory;
  typed->overflows = execution.overflows;
  return Status::ok();
}

// Gradients in the type that a task computes, or rounded to it.
template <class Gradients, class Task>
void set_results(const Gradients& gradients, Task* task) {
  if constexpr (std::is_same_v<Gradients, decltype(task->out)>) {
    task->out = gradients;
  } else {
    task->rounded = gradients;
  }
}

}  // namespace ioattn::api
