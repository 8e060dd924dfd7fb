#pragma once

#include "base/mask.hpp"
#include "schedules/sharing/workers.hpp"

// How long blocks are that no sum depends on, for workers that take them as they come.
namespace ioattn::schedules {

// Whether the last rows see more than the first ones.
inline bool see_more_at_the_end(const Mask& mask, index_t rows, index_t seen) {
  return rows > 0 && mask.of_row(0, seen).size() < mask.of_row(rows - 1, seen).size();
}

// The order in which workers take the blocks of rows: the last first where these see more, for who
// takes a long block at the end leaves the others idle. One alone takes them as they lie.
class BlockOrder {
 public:
  BlockOrder() = default;
  BlockOrder(int workers, const Mask& mask, index_t rows, index_t seen)
      : last_first_(workers > 1 && see_more_at_the_end(mask, rows, seen)) {}

  index_t block(index_t i, index_t count) const { return last_first_ ? count - 1 - i : i; }

 private:
  bool last_first_ = false;
};

// Rows of a block, in steps, that see some of `seen`. Few long ones would leave some workers idle
// at the end: of the lengths down to about half, or to a round of all workers, the one by which the
// last ends first.
index_t shared_block(index_t size, index_t block, index_t step, const Workers& workers,
                     const Mask& mask = {}, index_t seen = 1);

}  // namespace ioattn::schedules
