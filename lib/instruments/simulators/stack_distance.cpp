#include "instruments/simulators/stack_distance.hpp"

#include <algorithm>

namespace ioattn::instruments {

StackDistance::StackDistance() : recency_(std::size_t{1} << 16) {}

// Positions are renumbered in the order of recency; twice as many as there are lines, so that this
// costs a constant per access.
void StackDistance::compact() {
  std::vector<std::uint32_t> line_at(next_, never);
  for (std::size_t id = 0; id < lines_.size(); ++id) {
    line_at[lines_[id].position] = static_cast<std::uint32_t>(id);
  }
  recency_.resize(std::max(recency_.size(), 4 * lines_.size()));
  next_ = 0;
  for (const std::uint32_t id : line_at) {
    if (id == never) continue;
    lines_[id].position = static_cast<std::uint32_t>(next_);
    recency_.mark(next_++);
  }
}

void StackDistance::take(const Access* first, std::size_t count) {
  for (const Access* access = first; access != first + count; ++access) {
    if (next_ == recency_.size()) compact();
    ++accesses_;
    const bool is_new = access->id == lines_.size();
    if (is_new) {
      lines_.push_back({0, never});
      hits_.push_back(0);
    }
    Line& line = lines_[access->id];
    if (!is_new) {
      const std::uint32_t distance = recency_.behind(line.position, next_ - 1);
      ++hits_[distance];
      if (line.clean != never && distance > line.clean) {
        count_write_backs(line.clean, distance);
        line.clean = distance;
      }
      recency_.unmark(line.position);
    }
    recency_.mark(next_);
    line.position = static_cast<std::uint32_t>(next_++);
    if (access->written) line.clean = 0;
  }
}

void StackDistance::count_write_backs(std::uint32_t from, std::uint32_t to) {
  if (write_backs_.size() < to + std::size_t{2}) write_backs_.resize(to + std::size_t{2});
  ++write_backs_[from + std::size_t{1}];
  --write_backs_[to + std::size_t{1}];
}

std::vector<LineTraffic> StackDistance::curve() const {
  const std::size_t size = lines_.size();
  std::vector<LineTraffic> curve(std::max<std::size_t>(size, 1));
  // Lines that are still dirty at the end.
  std::vector<std::int64_t> changes = write_backs_;
  changes.resize(std::max(changes.size(), size + 2));
  for (const Line& line : lines_) {
    if (line.clean != never) ++changes[line.clean + std::size_t{1}];
  }
  std::uint64_t fills = accesses_;
  std::int64_t write_backs = 0;
  for (std::size_t capacity = 1; capacity <= curve.size(); ++capacity) {
    if (capacity <= size) fills -= hits_[capacity - 1];
    write_backs += changes[capacity];
    curve[capacity - 1] = {fills, static_cast<std::uint64_t>(write_backs)};
  }
  return curve;
}

LineTraffic StackDistance::traffic(std::uint64_t capacity) const {
  const std::vector<LineTraffic> all = curve();
  return all[std::min<std::size_t>(capacity, all.size()) - 1];
}

}  // namespace ioattn::instruments
