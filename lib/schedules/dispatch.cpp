#include "schedules/schedules.hpp"

namespace ioattn::schedules {

template <class T>
Status run_forward(Schedule schedule, const ForwardTask<T>& task) {
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
    case Schedule::col_stream: break;
  }
  return Status::error(StatusCode::unsupported, "%s has no forward pass", name_of(schedule));
}

template <class T>
Status run_backward(Schedule schedule, const BackwardTask<T>& task) {
  switch (schedule) {
    case Schedule::naive: return naive_backward(task);
    case Schedule::paper_small: return paper_small_backward(task);
    case Schedule::paper_large: return paper_large_backward(task);
    case Schedule::row_stream: return row_stream_backward(task);
    case Schedule::stationary: return stationary_backward(task);
    case Schedule::q_stored: return q_stored_backward(task);
    case Schedule::half_dim: return half_dim_backward(task);
    case Schedule::weight_resident: return weight_resident_backward(task);
    case Schedule::resident: return resident_backward(task);
    case Schedule::score_stored:
    case Schedule::col_stream: break;
  }
  return Status::error(StatusCode::unsupported, "%s has no backward pass", name_of(schedule));
}

template Status run_forward(Schedule, const ForwardTask<float>&);
template Status run_forward(Schedule, const ForwardTask<double>&);
template Status run_backward(Schedule, const BackwardTask<float>&);
template Status run_backward(Schedule, const BackwardTask<double>&);

}  // namespace ioattn::schedules
