#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {

namespace {

Status no_such_pass(Schedule schedule, const char* pass) {
  return Status::error(StatusCode::unsupported, "%s has no %s pass", name_of(schedule), pass);
}

template <class T>
Status forward_in_native(Schedule schedule, const ForwardTask<T>& task) {
  switch (schedule) {
    case Schedule::naive: break;
    case Schedule::paper_small: return paper_small_forward(task);
    case Schedule::paper_large: return paper_large_forward(task);
    case Schedule::stationary:
    case Schedule::score_stored: return stationary_forward(task);
    case Schedule::tile_fused: return tile_fused_forward(task);
    case Schedule::row_stream:
    case Schedule::q_stored:
    case Schedule::half_dim:
    case Schedule::weight_resident:
    case Schedule::resident:
    case Schedule::col_stream: break;
  }
  return no_such_pass(schedule, "forward");
}

template <class T>
Status backward_in_native(Schedule schedule, const BackwardTask<T>& task) {
  switch (schedule) {
    case Schedule::naive: return naive_backward(task);
    case Schedule::paper_small: return paper_small_backward(task);
    case Schedule::paper_large: return paper_large_backward(task);
    case Schedule::stationary: return stationary_backward(task);
    case Schedule::weight_resident: return weight_resident_backward(task);
    case Schedule::resident: return resident_backward(task);
    case Schedule::tile_fused: return tile_fused_backward(task);
    case Schedule::row_stream:
    case Schedule::q_stored:
    case Schedule::half_dim:
    case Schedule::score_stored:
    case Schedule::col_stream: break;
  }
  return no_such_pass(schedule, "backward");
}

template <class S>
Status forward_of_entry(Schedule schedule, const ForwardTask<S>& task) {
  if (schedule == Schedule::row_stream) return row_stream_forward(task);
  if constexpr (std::is_same_v<S, bf16>) {
    if (schedule == Schedule::tile_fused) return tile_fused_forward(task);
  }
  if constexpr (is_half_storage<S>) {
    return no_such_pass(schedule, "forward");
  } else {
    return forward_in_native(schedule, task);
  }
}

}  // namespace

template <class S>
Status run_forward(Schedule schedule, const ForwardTask<S>& task) {
  if (is_plain(task.in)) return forward_of_entry(schedule, task);
  WorkspaceLayout layout;
  const ScaledX<S> scaled_x(task.in, schedule, &layout);
  ForwardTask<S> entry = task;
  entry.in = entry_of(task.in, 0);
  const auto run = [&](const ForwardTask<S>& one) { return forward_of_entry(schedule, one); };
  const EntryWorkspace<ForwardTask<S>> entry_memory(entry, run, &layout);
  if (!entry_memory.status().is_ok()) return entry_memory.status();
  WorkspaceMemory memory;
  const Status allocated = layout.allocate(task.memory, &memory);
  if (!allocated.is_ok()) return allocated;
  LayerInputs<S> in = task.in;
  scaled_x.run(Trace::of_layer(task.observer, is_half_storage<S>), memory.data(), &in);
  for (index_t b = 0; b < task.in.batch; ++b) {
    CallerMemory lent = entry_memory.in(memory.data());
    entry.in = entry_of(in, b);
    entry.o = entry_of(task.o, b, task.shape.n);
    entry.lse = task.lse + b * task.shape.n;
    entry.memory = &lent;
    const Status status = run(entry);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

template <class S>
Status run_backward(Schedule schedule, const BackwardTask<S>& task) {
  if (leaves_u(schedule)) return rows_backward(schedule, task);
  if constexpr (std::is_same_v<S, bf16>) {
    if (schedule == Schedule::tile_fused) return tile_fused_backward(task);
  }
  if constexpr (is_half_storage<S>) {
    return no_such_pass(schedule, "backward");
  } else {
    return backward_in_native(schedule, task);
  }
}

#define IOATTN_INSTANTIATE(S)                                   \
  template Status run_forward(Schedule, const ForwardTask<S>&); \
  template Status run_backward(Schedule, const BackwardTask<S>&)
IOATTN_INSTANTIATE(float);
IOATTN_INSTANTIATE(double);
IOATTN_INSTANTIATE(bf16);
IOATTN_INSTANTIATE(f16);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
