#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "api/isa_variable.hpp"
#include "ioattn/ioattn.h"
#include "kernels/guarded_pages.hpp"
#include "reference/strided_tensor.hpp"

// Calls with every array of the caller flush against pages that fault.
namespace ioattn_test {

// Arrays of a caller, each of which is put between pages of its own.
class Arrays {
 public:
  // `slot` will point to `count` elements like those at `source`.
  template <class Pointer, class T>
  void add(Pointer* slot, const T* source, ioattn::index_t count) {
    arrays_.push_back({[slot](char* at) { *slot = reinterpret_cast<T*>(at); },
                       reinterpret_cast<const char*>(source),
                       count * static_cast<ioattn::index_t>(sizeof(T)), nullptr});
  }

  // Calls run() with all arrays on one side of their pages, then on the other; the arrays then hold
  // the same, inputs and gaps too.
  template <class Run>
  void on_both_sides(const Run& run) {
    std::vector<char> first;
    for (const Side side : sides) {
      running.numbers[7] = int(side);
      for (std::size_t i = 0; i < arrays_.size(); ++i) {
        Array& array = arrays_[i];
        array.at = pages(i).template place<char>(array.source, array.bytes, side);
        array.move_to(array.at);
      }
      run();
      std::vector<char> all;
      for (const Array& array : arrays_) all.insert(all.end(), array.at, array.at + array.bytes);
      if (side == sides[0]) first = all;
      EXPECT_TRUE(all == first);
    }
  }

 private:
  struct Array {
    std::function<void(char*)> move_to;
    const char* source;
    ioattn::index_t bytes;
    char* at;
  };
  static GuardedPages& pages(std::size_t i) {
    static std::vector<std::unique_ptr<GuardedPages>> all;
    while (all.size() <= i) all.push_back(std::make_unique<GuardedPages>(std::size_t(1) << 18));
    return *all[i];
  }

  std::vector<Array> arrays_;
};

// Of a tensor from its first element to its last.
template <class Strides>
ioattn::index_t span_of(const Strides& stride, std::int64_t batch, std::int64_t heads,
                        std::int64_t rows, std::int64_t cols) {
  if (batch * heads * rows * cols == 0) return 0;
  return (batch - 1) * stride[0] + (heads - 1) * stride[1] + (rows - 1) * stride[2] + cols;
}

// Whose faults are told. Acts run for_each_isa.
class GuardedArrays : public testing::Test {
 private:
  FaultsAreTold told_;
};

// Sizes n, m, d, dv: one of them takes every value, the others those of a base.
template <class Act>
void for_each_size(std::size_t least, std::size_t most, const Act& act) {
  for (const std::array<std::size_t, 4>& base :
       {std::array<std::size_t, 4>{5, 7, 9, 3}, {17, 33, 16, 8}})
    for (std::size_t which = 0; which < base.size(); ++which)
      for (std::size_t size = least; size <= most; ++size) {
        std::array<std::size_t, 4> sizes = base;
        sizes[which] = size;
        act(sizes, size);
        if (testing::Test::HasFailure()) return;
      }
}

}  // namespace ioattn_test
