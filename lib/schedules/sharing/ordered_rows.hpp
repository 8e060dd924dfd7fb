#pragma once

#include <array>

#include "parallel/parallel.hpp"
#include "schedules/range.hpp"

namespace ioattn::schedules {

// The rows of a matrix to which threads add terms in the order of their turns, so that no sum
// depends on the number of threads. The rows are cut into strips with a gate each: one thread adds
// to a strip while the next one follows in the strip before it.
class OrderedRows {
 public:
  OrderedRows(index_t rows, index_t tile_rows)
      : rows_(rows), strip_(round_up(ceil_div(rows, index_t(most_strips)), tile_rows)) {}

  // Calls add(strip) for every strip of rows when all earlier turns have left it.
  template <class Add>
  void take_turn(index_t turn, const Add& add) {
    auto gate = gates_.begin();
    for (Range strip(rows_, strip_); strip; strip.next(), ++gate) {
      gate->wait_for(turn);
      add(strip);
      gate->pass(turn);
    }
  }

 private:
  static constexpr int most_strips = 8;
  index_t rows_, strip_;
  std::array<parallel::OrderedGate, most_strips> gates_;
};

}  // namespace ioattn::schedules
