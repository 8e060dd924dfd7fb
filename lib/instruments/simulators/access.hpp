#pragma once

#include <cstddef>
#include <cstdint>

// What passes from a trace to simulators of caches.
namespace ioattn::instruments {

// One line that is touched. Lines are numbered from 0 in the order in which they are first touched;
// `line` is where it really lies: address / bytes of a line.
struct Access {
  std::uint64_t line = 0;
  std::uint32_t id = 0;
  bool written = false;
};

class AccessSink {
 public:
  virtual ~AccessSink() = default;
  virtual void take(const Access* first, std::size_t count) = 0;
};

// What a cache brings in and writes back, in lines. A write brings its line in too, and dirty lines
// that are left at the end count as written back.
struct LineTraffic {
  std::uint64_t fills = 0;
  std::uint64_t write_backs = 0;
  bool operator==(const LineTraffic&) const = default;
};

}  // namespace ioattn::instruments
