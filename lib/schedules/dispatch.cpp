#include "schedules/batch.hpp"
#include "schedules/schedules.hpp"

namespace ioattn::schedules {

namespace {

template <class T>
Status forward_of_entry(Schedule schedule, const ForwardTask<T>& task) {
  switch (schedule) {
    case Schedule::naive: break;
    case Schedule::paper_small: return paper_small_forward(task);
    case Schedule::paper_large: return paper_large_forward(task);
    case Schedule::row_stream: return row_stream_forward(task);
    case Schedule::stationary:
    case Schedule::score_stored: return stationary_forward(task);
    case Schedule::q_stored:
    case Schedule::half_dim:
    case Schedule::weight_resident:
    case Schedule::resident:
    case Schedule::col_stream:
    case Schedule::tile_fused: break;
  }
  return Status::error(StatusCode::unsupported, "%s has no forward pass", name_of(schedule));
}

}  // namespace

template <class T>
Status run_forward(Schedule schedule, const ForwardTask<T>& task) {
  if (is_plain(task.in)) return forward_of_entry(schedule, task);
  WorkspaceLayout layout;
  const ScaledX<T> scaled_x(task.in, &layout);
  ForwardTask<T> entry = task;
  entry.in = entry_of(task.in, 0);
  const auto run = [&](const ForwardTask<T>& one) { return forward_of_entry(schedule, one); };
  const EntryWorkspace<ForwardTask<T>> entry_memory(entry, run, &layout);
  if (!entry_memory.status().is_ok()) return entry_memory.status();
  WorkspaceMemory memory;
  const Status allocated = layout.allocate(task.memory, &memory);
  if (!allocated.is_ok()) return allocated;
  const MatrixView<const T> x = scaled_x.run(Trace(task.observer), memory.data());
  for (index_t b = 0; b < task.in.batch; ++b) {
    CallerMemory lent = entry_memory.in(memory.data());
    entry.in = entry_of(task.in, b);
    entry.in.x = x;
    entry.o = entry_of(task.o, b, task.shape.n);
    entry.lse = task.lse + b * task.shape.n;
    entry.memory = &lent;
    const Status status = run(entry);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

template <class T>
Status run_backward(Schedule schedule, const BackwardTask<T>& task) {
  switch (schedule) {
    case Schedule::naive: return naive_backward(task);
    case Schedule::paper_small: return paper_small_backward(task);
    case Schedule::paper_large: return paper_large_backward(task);
    case Schedule::row_stream:
    case Schedule::q_stored:
    case Schedule::half_dim: return rows_backward(schedule, task);
    case Schedule::stationary: return stationary_backward(task);
    case Schedule::weight_resident: return weight_resident_backward(task);
    case Schedule::resident: return resident_backward(task);
    case Schedule::score_stored:
    case Schedule::col_stream:
    case Schedule::tile_fused: break;
  }
  return Status::error(StatusCode::unsupported, "%s has no backward pass", name_of(schedule));
}

template Status run_forward(Schedule, const ForwardTask<float>&);
template Status run_forward(Schedule, const ForwardTask<double>&);
template Status run_backward(Schedule, const BackwardTask<float>&);
template Status run_backward(Schedule, const BackwardTask<double>&);

}  // namespace ioattn::schedules
