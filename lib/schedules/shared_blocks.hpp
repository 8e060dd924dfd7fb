#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include "base/mask.hpp"
#include "schedules/task.hpp"

// How long blocks are that no sum depends on, for workers that take them as they come.
namespace ioattn::schedules {

// Each block passes over all that the problem streams, which takes as long as so many rows:
// multiply-adds in the time of a word.
inline constexpr index_t rows_per_pass = 16;

// Rows of a block, in steps. Few long ones would leave some workers idle at the end. Of the lengths
// that make no more blocks than whole rounds of all workers need the one by which the last ends
// first.
inline index_t shared_block(index_t size, index_t block, index_t step, const Workers& workers) {
  block = std::min(block, size);
  if (workers.count <= 1) return block;
  const index_t all = workers.count, fewest = ceil_div(size, block);
  index_t best = block, least_time = 0;
  for (index_t count = fewest; count <= round_up(fewest, all); ++count) {
    const index_t length = std::min(block, round_up(ceil_div(size, count), step));
    const index_t rounds = ceil_div(workers.problems * ceil_div(size, length), all);
    const index_t time = rounds * (length + rows_per_pass);
    if (least_time > 0 && time >= least_time) continue;
    least_time = time;
    best = length;
  }
  return best;
}

// Whether the last rows see more than the first ones. Workers then take the last blocks first: who
// takes a long block at the end leaves the others idle.
inline bool see_more_at_the_end(const Mask& mask, index_t rows, index_t seen) {
  return rows > 0 && mask.of_row(0, seen).size() < mask.of_row(rows - 1, seen).size();
}

// The time of a block of rows in pairs of them and what they see, of `seen` that there are; about
// as many as if the middle one of a few rows stood for all.
inline index_t time_of_block(const Mask& mask, const Interval& rows, index_t seen) {
  index_t time = rows_per_pass * mask.of_any(rows, seen).size();
  for (Range few(rows.begin, rows.end, 64); few; few.next())
    time += few.size() * mask.of_row(few.begin + few.size() / 2, seen).size();
  return time;
}

// When the last of the workers ends who take blocks of all problems as they come.
inline index_t end_of_last(const Mask& mask, index_t size, index_t length, index_t seen,
                           const Workers& workers) {
  constexpr int most = 256;  // the rest of them changes little
  std::array<index_t, most> ends = {};
  const auto last = ends.begin() + std::min(workers.count, most);
  const index_t blocks = ceil_div(size, length);
  const bool last_first = see_more_at_the_end(mask, size, seen);
  for (index_t item = 0; item < workers.problems * blocks; ++item) {
    const index_t block = last_first ? blocks - 1 - item % blocks : item % blocks;
    const Interval rows = {block * length, std::min(size, (block + 1) * length)};
    std::pop_heap(ends.begin(), last, std::greater<>());
    *(last - 1) += time_of_block(mask, rows, seen);
    std::push_heap(ends.begin(), last, std::greater<>());
  }
  return *std::max_element(ends.begin(), last);
}

// The same under a mask, where blocks of as many rows take longer or shorter.
inline index_t shared_block(index_t size, index_t block, index_t step, const Workers& workers,
                            const Mask& mask, index_t seen) {
  if (!mask.hides()) return shared_block(size, block, step, workers);
  constexpr index_t enough = 4;  // blocks a worker
  block = std::min(block, size);
  const index_t most = enough * workers.count;
  const auto count = [&](index_t length) { return workers.problems * ceil_div(size, length); };
  if (workers.count <= 1 || count(block) >= most) return block;
  index_t best = block, least_time = end_of_last(mask, size, block, seen, workers);
  for (index_t length = round_down(block - 1, step); length > 0 && count(length) <= most;
       length -= step) {
    const index_t time = end_of_last(mask, size, length, seen, workers);
    if (time >= least_time) continue;
    least_time = time;
    best = length;
  }
  return best;
}

}  // namespace ioattn::schedules
