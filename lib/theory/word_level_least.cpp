#include "theory/word_level.hpp"

namespace ioattn::theory::word_level {

Cost least_cost(Pass pass, Schedule schedule, const LayerShape& shape, index_t M) {
  if (!exists(schedule, pass)) return std::nullopt;
  const bool forward = pass == Pass::forward;
  switch (schedule) {
    case Schedule::naive: return naive_backward(shape, M);
    case Schedule::paper_small:
      return forward ? paper_small_forward(shape, M) : paper_small_backward(shape, M);
    case Schedule::paper_large: return forward ? std::nullopt : paper_large_backward(shape, M);
    case Schedule::row_stream:
      return forward ? row_stream_forward(shape, M) : row_stream_backward(shape, M);
  }
  return std::nullopt;
}

}  // namespace ioattn::theory::word_level
