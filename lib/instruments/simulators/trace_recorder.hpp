#pragma once

#include <array>
#include <vector>

#include "base/types.hpp"
#include "instruments/simulators/access.hpp"
#include "instruments/simulators/line_numbers.hpp"

namespace ioattn::instruments {

// Makes lines of the memory that one thread touches and hands them to simulators. Touching a line
// again at once is no access of its own: no cache would notice.
class TraceRecorder {
 public:
  // Lines of so many bytes, a power of two. After `limit` accesses no more are handed on.
  TraceRecorder(index_t line_bytes, std::uint64_t limit, std::vector<AccessSink*> sinks);
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  void touch(const void* first, std::size_t bytes, bool written) {
    if (bytes == 0) return;
    const auto address = reinterpret_cast<std::uintptr_t>(first);
    const std::uint64_t last = (address + bytes - 1) >> shift_;
    for (std::uint64_t line = address >> shift_; line <= last; ++line) add(line, written);
  }
  // Hands on what is left; the end of the trace.
  void finish();

  index_t line_bytes() const { return index_t{1} << shift_; }
  std::uint64_t accesses() const { return accesses_; }
  bool overflowed() const { return overflowed_; }  // the trace is not whole

 private:
  void add(std::uint64_t line, bool written) {
    if (count_ > 0 && buffer_[count_ - 1].line == line) {
      buffer_[count_ - 1].written = buffer_[count_ - 1].written || written;
      return;
    }
    if (count_ == buffer_.size()) flush();
    buffer_[count_++] = {line, numbers_.of(line), written};
  }
  void flush();

  unsigned shift_ = 0;
  std::uint64_t limit_;
  std::vector<AccessSink*> sinks_;
  LineNumbers numbers_;
  std::uint64_t accesses_ = 0;
  bool overflowed_ = false;
  std::array<Access, 1024> buffer_;
  std::size_t count_ = 0;
};

// Words, of which there may be none, for whoever records; null: nobody does.
template <class Word>
void touch(TraceRecorder* recorder, const Word* first, index_t count, bool written) {
  if (recorder != nullptr && count > 0)
    recorder->touch(first, static_cast<std::size_t>(count) * sizeof(Word), written);
}

}  // namespace ioattn::instruments
