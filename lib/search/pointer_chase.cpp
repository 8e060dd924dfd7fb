#include "search/pointer_chase.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/arbitrary_reals.hpp"

namespace ioattn::search {
namespace {

// first, first + 1, ... in another order.
std::vector<index_t> shuffled(index_t count, index_t first, ArbitraryReals* reals) {
  std::vector<index_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), first);
  for (std::size_t left = order.size(); left > 1; --left) {
    const auto other =
        static_cast<std::size_t>((reals->next() + 1) / 2 * static_cast<double>(left));
    std::swap(order[left - 1], order[std::min(other, left - 1)]);
  }
  return order;
}

}  // namespace

PointerRing::PointerRing(void* memory, index_t bytes)
    : lines_(std::max<index_t>(bytes / line_bytes, 1)) {
  constexpr index_t lines_of_page = page_bytes / line_bytes;
  const auto line = [&](index_t i) {
    return reinterpret_cast<void**>(static_cast<std::byte*>(memory) + i * line_bytes);
  };
  ArbitraryReals reals;
  void** last = nullptr;
  for (const index_t page : shuffled(ceil_div(lines_, lines_of_page), 0, &reals)) {
    const index_t first = page * lines_of_page;
    for (const index_t i : shuffled(std::min(lines_of_page, lines_ - first), first, &reals)) {
      if (last == nullptr) {
        next_ = line(i);
      } else {
        *last = line(i);
      }
      last = line(i);
    }
  }
  *last = next_;
}

void PointerRing::chase(index_t steps) {
  void* at = next_;
  for (; steps > 0; --steps) at = *static_cast<void**>(at);
  next_ = at;
}

}  // namespace ioattn::search
