#include "theory/word_level.hpp"

namespace ioattn::theory::word_level {
namespace {

Cost least(const Cost& a, const Cost& b) {
  if (!a || !b) return a ? a : b;
  return a->total() <= b->total() ? a : b;
}

}  // namespace

Cost least_cost(Pass pass, Schedule schedule, const LayerShape& shape, index_t M) {
  if (!exists(schedule, pass)) return std::nullopt;
  const bool forward = pass == Pass::forward;
  switch (schedule) {
    case Schedule::naive: return naive_backward(shape, M);
    case Schedule::paper_small:
      return forward ? paper_small_forward(shape, M) : paper_small_backward(shape, M);
    case Schedule::paper_large:
      return forward ? paper_large_forward(shape, M) : paper_large_backward(shape, M);
    case Schedule::row_stream:
      return forward ? row_stream_forward(shape, M) : row_stream_backward(shape, M);
    case Schedule::stationary:
      return forward ? least(stationary_forward(shape, M, Form::g),
                             stationary_forward(shape, M, Form::h))
                     : least(stationary_backward(shape, M, Form::g),
                             stationary_backward(shape, M, Form::h));
    case Schedule::q_stored:
      return least(q_stored_backward(shape, M, Form::g), q_stored_backward(shape, M, Form::h));
    case Schedule::half_dim:
      return least(half_dim_backward(shape, M, Form::g), half_dim_backward(shape, M, Form::h));
    case Schedule::weight_resident: return weight_resident_backward(shape, M);
    case Schedule::score_stored:
      return least(score_stored_forward(shape, M, Form::g),
                   score_stored_forward(shape, M, Form::h));
    case Schedule::resident: return resident_backward(shape, M);
    case Schedule::tile_fused:
      return forward ? tile_fused_forward(shape, M) : std::nullopt;  // for dX, exact_cost
    case Schedule::col_stream: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ioattn::theory::word_level
