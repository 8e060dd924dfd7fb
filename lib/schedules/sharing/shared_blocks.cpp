#include "schedules/sharing/shared_blocks.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "schedules/range.hpp"
#include "schedules/sharing/workers.hpp"

namespace ioattn::schedules {
namespace {

// Each block passes over all that the problem streams, which takes as long as so many rows:
// multiply-adds in the time of a word.
constexpr index_t rows_per_pass = 16;

// The time of a block of rows in pairs of them and what they see, of `seen` that there are; about
// as many as if the middle one of a few rows stood for all.
index_t time_of_block(const Mask& mask, const Interval& rows, index_t seen) {
  if (!mask.hides()) return (rows.size() + rows_per_pass) * seen;
  index_t time = rows_per_pass * mask.of_any(rows, seen).size();
  for (Range few(rows.begin, rows.end, 64); few; few.next())
    time += few.size() * mask.of_row(few.begin + few.size() / 2, seen).size();
  return time;
}

// Of so many, the times under a mask are not counted.
constexpr index_t many_blocks = 128;

// When the last of the workers ends who take blocks of all problems as they come.
index_t end_of_last(const Mask& mask, index_t size, index_t length, index_t seen,
                    const Workers& workers) {
  const index_t blocks = ceil_div(size, length), items = workers.problems * blocks;
  if (items > many_blocks || workers.count > many_blocks)
    return ceil_div(items, index_t(workers.count)) * time_of_block({}, {0, length}, seen);
  std::array<index_t, many_blocks> ends = {};
  const auto last = ends.begin() + workers.count;
  const BlockOrder order(workers.count, mask, size, seen);
  for (index_t item = 0; item < items; ++item) {
    const index_t block = order.block(item % blocks, blocks);
    const Interval rows = {block * length, std::min(size, (block + 1) * length)};
    std::pop_heap(ends.begin(), last, std::greater<>());
    *(last - 1) += time_of_block(mask, rows, seen);
    std::push_heap(ends.begin(), last, std::greater<>());
  }
  return *std::max_element(ends.begin(), last);
}

}  // namespace

index_t shared_block(index_t size, index_t block, index_t step, const Workers& workers,
                     const Mask& mask, index_t seen) {
  block = std::min(block, size);
  if (workers.count <= 1) return block;
  if (mask.hides() && workers.problems * ceil_div(size, block) > many_blocks) return block;
  const index_t most = 2 * round_up(ceil_div(size, block), index_t(workers.count));
  const index_t shorter = round_up(ceil_div(block, index_t(32)), step);
  index_t best = block, least_time = end_of_last(mask, size, block, seen, workers);
  for (index_t length = round_down(block - 1, step); length > 0 && ceil_div(size, length) <= most;
       length -= shorter) {
    const index_t time = end_of_last(mask, size, length, seen, workers);
    if (time >= least_time) continue;
    least_time = time;
    best = length;
  }
  return best;
}

}  // namespace ioattn::schedules
