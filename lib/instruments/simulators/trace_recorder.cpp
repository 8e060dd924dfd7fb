#include "instruments/simulators/trace_recorder.hpp"

#include <bit>
#include <utility>

namespace ioattn::instruments {

TraceRecorder::TraceRecorder(index_t line_bytes, std::uint64_t limit,
                             std::vector<AccessSink*> sinks)
    : shift_(static_cast<unsigned>(std::countr_zero(static_cast<std::uint64_t>(line_bytes)))),
      limit_(limit),
      sinks_(std::move(sinks)) {}

void TraceRecorder::flush() {
  accesses_ += count_;
  overflowed_ = overflowed_ || accesses_ > limit_;
  if (!overflowed_) {
    for (AccessSink* sink : sinks_) sink->take(buffer_.data(), count_);
  }
  count_ = 0;
}

void TraceRecorder::finish() { flush(); }

}  // namespace ioattn::instruments
