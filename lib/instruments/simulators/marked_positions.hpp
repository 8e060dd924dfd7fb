#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace ioattn::instruments {

// A row of marks, and how many of them lie behind a position: Fenwick's tree with 64 marks in a
// leaf and 16 children in a node, so that few cache lines are read per question.
class MarkedPositions {
 public:
  explicit MarkedPositions(std::size_t size) { resize(size); }

  // All marks are gone.
  void resize(std::size_t size) {
    size_ = size;
    bits_.assign((size >> leaf_bits) + 1, 0);
    counts_.clear();
    for (std::size_t nodes = (size >> (leaf_bits + node_bits)) + 1;;
         nodes = (nodes >> node_bits) + 1) {
      counts_.emplace_back(nodes, 0);
      if (nodes == 1) break;
    }
  }
  std::size_t size() const { return size_; }

  void mark(std::size_t position) { change(position, 1, std::uint32_t{1}); }
  void unmark(std::size_t position) { change(position, 0, ~std::uint32_t{0}); }

  // Marks in (position, last], both marked or not; all marks are at most at `last`.
  std::uint32_t behind(std::size_t position, std::size_t last) const {
    std::size_t word = position >> leaf_bits;
    const unsigned shift = position & 63;
    std::uint32_t count =
        static_cast<std::uint32_t>(std::popcount(shift == 63 ? 0 : bits_[word] >> (shift + 1)));
    std::size_t end = last >> leaf_bits;
    if (word == end) return count;
    // Siblings that follow, up to the node of `last`; then the same one level up.
    std::size_t stop = end < (word | node_mask) ? end : (word | node_mask);
    for (std::size_t i = word + 1; i <= stop; ++i) {
      count += static_cast<std::uint32_t>(std::popcount(bits_[i]));
    }
    std::size_t node = word >> node_bits;
    end >>= node_bits;
    for (const std::vector<std::uint32_t>& level : counts_) {
      if (node == end) break;
      stop = end < (node | node_mask) ? end : (node | node_mask);
      for (std::size_t i = node + 1; i <= stop; ++i) count += level[i];
      node >>= node_bits;
      end >>= node_bits;
    }
    return count;
  }

 private:
  static constexpr unsigned leaf_bits = 6, node_bits = 4;
  static constexpr std::size_t node_mask = (std::size_t{1} << node_bits) - 1;

  void change(std::size_t position, std::uint64_t bit, std::uint32_t by) {
    const std::uint64_t mask = std::uint64_t{1} << (position & 63);
    std::uint64_t& word = bits_[position >> leaf_bits];
    word = bit != 0 ? word | mask : word & ~mask;
    std::size_t node = position >> (leaf_bits + node_bits);
    for (std::vector<std::uint32_t>& level : counts_) {
      level[node] += by;
      node >>= node_bits;
    }
  }

  std::size_t size_ = 0;
  std::vector<std::uint64_t> bits_;
  std::vector<std::vector<std::uint32_t>> counts_;  // of 1024 marks, of 16 such, ...
};

}  // namespace ioattn::instruments
