// SDPA and the layer problem with every array of the caller flush against pages that fault, for all
// tails of every size: nothing beside them is read or written, and their place changes no bit.

#include "api/batch_call.hpp"
#include "api/guarded_arrays.hpp"
#include "api/sdpa_call.hpp"

namespace ioattn_test {
namespace {

using ioattn::index_t;

template <class T, class Pointer>
void add(Arrays* arrays, Pointer* slot, const Strided<T>& matrix, std::int64_t rows,
         std::int64_t cols) {
  arrays->add(slot, matrix.data(), span_of(rows, cols, matrix.stride()));
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
  Arrays arrays;
  arrays.add(&p.q, call.q.data(), span_of(call.q.strides(), p.batch, p.heads, p.n, p.d));
  arrays.add(&p.k, call.k.data(), span_of(call.k.strides(), p.batch, p.kv_heads, p.m, p.d));
  arrays.add(&p.v, call.v.data(), span_of(call.v.strides(), p.batch, p.kv_heads, p.m, p.dv));
  arrays.add(&d_o, call.d_o.data(), span_of(call.d_o.strides(), p.batch, p.heads, p.n, p.dv));
  arrays.add(&o, call.o.data(), span_of(call.o.strides(), p.batch, p.heads, p.n, p.dv));
  arrays.add(&lse, call.lse.data(), span_of(call.lse.strides(), p.batch, p.heads, 1, p.n));
  ioattn_sdpa_gradients& g = call.gradients;
  arrays.add(&g.dq, call.dq.data(), span_of(call.dq.strides(), p.batch, p.heads, p.n, p.d));
  arrays.add(&g.dk, call.dk.data(), span_of(call.dk.strides(), p.batch, p.kv_heads, p.m, p.d));
  arrays.add(&g.dv, call.dv.data(), span_of(call.dv.strides(), p.batch, p.kv_heads, p.m, p.dv));
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
  Arrays arrays;
  add(&arrays, &p.a1, call.a1, p.batch * p.n, p.d);
  add(&arrays, &p.a2, call.a2, p.batch * p.m, p.d);
  add(&arrays, &p.a3, call.a3, p.batch * p.m, p.d);
  add(&arrays, &p.x, call.x, p.d, p.d);
  add(&arrays, &p.y, call.y, p.d, p.dv);
  add(&arrays, &d_o, call.d_o, p.batch * p.n, p.dv);
  add(&arrays, &o, call.o, p.batch * p.n, p.dv);
  add(&arrays, &lse, call.lse, 1, p.batch * p.n);
  ioattn_layer_gradients& g = call.gradients;
  add(&arrays, &g.dx, call.out[0], p.d, p.d);
  if (schedule == nullptr) {
    add(&arrays, &g.dy, call.out[1], p.d, p.dv);
    add(&arrays, &g.da1, call.out[2], p.batch * p.n, p.d);
    add(&arrays, &g.da2, call.out[3], p.batch * p.m, p.d);
    add(&arrays, &g.da3, call.out[4], p.batch * p.m, p.d);
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

// Vectors have up to 16 elements: all tails are among so many sizes.
constexpr std::size_t most_tail = 2 * 16 + 1;

template <class T>
void check_all_sdpa() {
  for_each_size(0, most_tail, [](const std::array<std::size_t, 4>& s, std::size_t size) {
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
  for_each_size(1, most_tail, [](const std::array<std::size_t, 4>& s, std::size_t size) {
    const CaseShape entry = {s[0], s[1], s[2], s[3], Ties::none};
    check_layer<T>({entry, 1, 1, {}}, size % 2 * 3, nullptr);
    check_layer<T>({entry, 2, 0.5, mask_cases[1 + size % 3]}, size % 2 * 3, nullptr);
    constexpr std::size_t count = std::size(backward_schedules);
    // Not in step with the padding.
    const char* const schedule = backward_schedules[(size + size / count) % count];
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
