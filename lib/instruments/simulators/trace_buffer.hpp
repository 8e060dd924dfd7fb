#pragma once

#include <vector>

#include "instruments/simulators/access.hpp"

namespace ioattn::instruments {

// Keeps a trace of at most so many accesses, 4 bytes each, for a simulator that has to know what
// comes next.
class TraceBuffer final : public AccessSink {
 public:
  explicit TraceBuffer(std::uint64_t limit) : limit_(limit) {}

  void take(const Access* first, std::size_t count) override {
    overflowed_ = overflowed_ || accesses_.size() + count > limit_;
    if (overflowed_) {
      accesses_.clear();
      accesses_.shrink_to_fit();
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      accesses_.push_back(first[i].id << 1 | std::uint32_t{first[i].written});
    }
  }
  // The trace is not there.
  bool overflowed() const { return overflowed_; }

  std::size_t size() const { return accesses_.size(); }
  std::uint32_t id(std::size_t i) const { return accesses_[i] >> 1; }
  bool written(std::size_t i) const { return (accesses_[i] & 1) != 0; }

 private:
  std::uint64_t limit_;
  bool overflowed_ = false;
  std::vector<std::uint32_t> accesses_;
};

}  // namespace ioattn::instruments
