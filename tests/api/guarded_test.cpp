// SDPA and the layer problem with every array of the caller flush against pages that fault, for all
// tails of every size: nothing beside them is read or written, and their place changes no bit.

#include <cstdlib>
#include <functional>
#include <memory>

#include "api/batch_call.hpp"
#include "api/sdpa_call.hpp"
#include "kernels/guarded_pages.hpp"

namespace ioattn_test {
namespace {

using ioattn::index_t;

// Arrays of a caller, each of which is put between pages of its own.
template <class T>
class Arrays {
 public:
  // `slot` will point to `count` elements like those at `source`.
  template <class Pointer>
  void add(Pointer* slot, const T* source, index_t count) {
    arrays_.push_back({[slot](T* at) { *slot = at; }, source, count, nullptr});
  }
  template <class Pointer>
  void add(Pointer* slot, const Strided<T>& matrix, std::int64_t rows, std::int64_t cols) {
    add(slot, matrix.data(), span_of(rows, cols, matrix.stride()));
  }

  // Calls run() with all arrays on one side of their pages, then on the other; the arrays then hold
  // the same, inputs and gaps too.
  template <class Run>
  void on_both_sides(const Run& run) {
    std::vector<T> first;
    for (const Side side : sides) {
      running.numbers[7] = int(side);
      for (std::size_t i = 0; i < arrays_.size(); ++i) {
        Array& array = arrays_[i];
        array.at = pages(i).template place<T>(array.source, array.count, side);
        array.move_to(array.at);
      }
      run();
      std::vector<T> all;
      for (const Array& array : arrays_) all.insert(all.end(), array.at, array.at + array.count);
      if (side == sides[0]) first = all;
      EXPECT_TRUE(same_bits(all, first));
    }
  }

 private:
  struct Array {
    std::function<void(T*)> move_to;
    const T* source;
    index_t count;
    T* at;
  };
  static GuardedPages& pages(std::size_t i) {
    static std::vector<std::unique_ptr<GuardedPages>> all;
    while (all.size() <= i) all.push_back(std::make_unique<GuardedPages>(std::size_t(1) << 18));
    return *all[i];
  }

  std::vector<Array> arrays_;
};

// Of a tensor from its first element to its last.
template <class T>
index_t span_of(const reference::StridedTensor<T>& tensor, std::int64_t batch, std::int64_t heads,
                std::int64_t rows, std::int64_t cols) {
  if (batch * heads * rows * cols == 0) return 0;
  const auto& stride = tensor.strides();
  return (batch - 1) * stride[0] + (heads - 1) * stride[1] + (rows - 1) * stride[2] + cols;
}

template <class T>
void check_sdpa(const SdpaSizes& sizes, Layout layout, ioattn_mask mask, std::int64_t M) {
  SdpaCall<T> call(sizes, layout);
  ioattn_sdpa_problem& p = call.problem;
  p.mask = mask;
  p.window_left = 3;
  p.window_right = 2;
  running = {"sdpa", {p.n, p.m, p.d, p.dv, p.heads, int(layout), int(mask)}};
  T *d_o = nullptr, *o = nullptr, *lse = nullptr;
  Arrays<T> arrays;
  arrays.add(&p.q, call.q.data(), span_of(call.q, p.batch, p.heads, p.n, p.d));
  arrays.add(&p.k, call.k.data(), span_of(call.k, p.batch, p.kv_heads, p.m, p.d));
  arrays.add(&p.v, call.v.data(), span_of(call.v, p.batch, p.kv_heads, p.m, p.dv));
  arrays.add(&d_o, call.d_o.data(), span_of(call.d_o, p.batch, p.heads, p.n, p.dv));
  arrays.add(&o, call.o.data(), span_of(call.o, p.batch, p.heads, p.n, p.dv));
  arrays.add(&lse, call.lse.data(), span_of(call.lse, p.batch, p.heads, 1, p.n));
  ioattn_sdpa_gradients& g = call.gradients;
  arrays.add(&g.dq, call.dq.data(), span_of(call.dq, p.batch, p.heads, p.n, p.d));
  arrays.add(&g.dk, call.dk.data(), span_of(call.dk, p.batch, p.kv_heads, p.m, p.d));
  arrays.add(&g.dv, call.dv.data(), span_of(call.dv, p.batch, p.kv_heads, p.m, p.dv));
  ioattn_options options = default_options();
  options.fast_memory_words = M;
  arrays.on_both_sides([&] {
    ASSERT_EQ(ioattn_sdpa_forward(&p, &options, o, call.o.strides().data(), lse,
                                  call.lse.strides().data()),
              IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(ioattn_sdpa_backward(&p, &options, d_o, call.d_o.strides().data(), o,
                                   call.o.strides().data(), lse, call.lse.strides().data(), &g),
              IOATTN_OK)
        << ioattn_last_error();
  });
}

// All gradients of a batch by what the planner chooses, or dX of one entry by a schedule.
template <class T>
void check_layer(const BatchShape& shape, std::size_t padding, const char* schedule) {
  BatchCall<T> call(shape, padding);
  call.want(schedule == nullptr);
  ioattn_layer_problem& p = call.problem;
  running = {schedule == nullptr ? "layer" : schedule,
             {p.n, p.m, p.d, p.dv, p.batch, int(p.mask), index_t(padding)}};
  T *d_o = nullptr, *o = nullptr, *lse = nullptr;
  Arrays<T> arrays;
  arrays.add(&p.a1, call.a1, p.batch * p.n, p.d);
  arrays.add(&p.a2, call.a2, p.batch * p.m, p.d);
  arrays.add(&p.a3, call.a3, p.batch * p.m, p.d);
  arrays.add(&p.x, call.x, p.d, p.d);
  arrays.add(&p.y, call.y, p.d, p.dv);
  arrays.add(&d_o, call.d_o, p.batch * p.n, p.dv);
  arrays.add(&o, call.o, p.batch * p.n, p.dv);
  arrays.add(&lse, call.lse, 1, p.batch * p.n);
  ioattn_layer_gradients& g = call.gradients;
  arrays.add(&g.dx, call.out[0], p.d, p.d);
  if (schedule == nullptr) {
    arrays.add(&g.dy, call.out[1], p.d, p.dv);
    arrays.add(&g.da1, call.out[2], p.batch * p.n, p.d);
    arrays.add(&g.da2, call.out[3], p.batch * p.m, p.d);
    arrays.add(&g.da3, call.out[4], p.batch * p.m, p.d);
  }
  ioattn_options options = with_schedule(schedule);
  const bool both = schedule == nullptr || has_forward_pass(schedule);
  arrays.on_both_sides([&] {
    ASSERT_EQ(ioattn_layer_forward(&p, both ? &options : nullptr, o, call.o.stride(), lse),
              IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(
        ioattn_layer_backward(&p, &options, d_o, call.d_o.stride(), o, call.o.stride(), lse, &g),
        IOATTN_OK)
        << ioattn_last_error();
  });
}

// Runs on the kernels of one instruction set after the other, as IOATTN_ISA selects them.
class GuardedArrays : public testing::Test {
 protected:
  template <class Act>
  void for_each_isa(const Act& act) {
    const char* const asked = std::getenv("IOATTN_ISA");
    if (asked != nullptr) return act();
    for (std::int32_t i = 0; ioattn_isa(i, nullptr) != nullptr; ++i) {
      std::int32_t available = 0;
      const char* const name = ioattn_isa(i, &available);
      if (available == 0) continue;
      setenv("IOATTN_ISA", name, 1);
      act();
    }
    unsetenv("IOATTN_ISA");
  }

 private:
  FaultsAreTold told_;
};

// Vectors have up to 16 elements: all tails are among so many sizes.
constexpr std::size_t most_tail = 2 * 16 + 1;

// Sizes n, m, d, dv: one of them takes every value, the others those of a base.
template <class Act>
void for_each_size(std::size_t least, const Act& act) {
  for (const std::array<std::size_t, 4>& base :
       {std::array<std::size_t, 4>{5, 7, 9, 3}, {17, 33, 16, 8}})
    for (std::size_t which = 0; which < base.size(); ++which)
      for (std::size_t size = least; size <= most_tail; ++size) {
        std::array<std::size_t, 4> sizes = base;
        sizes[which] = size;
        act(sizes, size);
        if (testing::Test::HasFailure()) return;
      }
}

template <class T>
void check_all_sdpa() {
  for_each_size(0, [](const std::array<std::size_t, 4>& s, std::size_t size) {
    const auto [n, m, d, dv] = s;
    const Layout layout = reference::all_layouts[size % 3];
    check_sdpa<T>({1, 1, 1, n, m, d, dv}, layout, IOATTN_MASK_NONE, 0);
    check_sdpa<T>({2, 4, 2, n, m, d, dv}, layout, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0);
    check_sdpa<T>({1, 2, 2, n, m, d, dv}, layout, IOATTN_MASK_WINDOW_TOP_LEFT, 1500);
  });
}

TEST_F(GuardedArrays, OfSdpa) {
  for_each_isa([] {
    check_all_sdpa<float>();
    check_all_sdpa<double>();
  });
}

template <class T>
void check_all_layers() {
  for_each_size(1, [](const std::array<std::size_t, 4>& s, std::size_t size) {
    const CaseShape entry = {s[0], s[1], s[2], s[3], Ties::none};
    check_layer<T>({entry, 1, 1, {}}, size % 2 * 3, nullptr);
    check_layer<T>({entry, 2, 0.5, mask_cases[1 + size % 3]}, size % 2 * 3, nullptr);
    const char* const schedule = backward_schedules[size % std::size(backward_schedules)];
    check_layer<T>({entry, 1, 1, {}}, size % 2 * 3, schedule);
  });
}

TEST_F(GuardedArrays, OfTheLayer) {
  for_each_isa([] {
    check_all_layers<float>();
    check_all_layers<double>();
  });
}

}  // namespace
}  // namespace ioattn_test
