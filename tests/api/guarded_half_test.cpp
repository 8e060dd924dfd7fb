// SDPA and the layer problem in 16 bits, by products of f32 and of pairs, with every array of the
// caller flush against pages that fault, for all tails of every size.

#include <cstring>

#include "api/guarded_arrays.hpp"
#include "api/isa_variable.hpp"
#include "api/layer_half_call.hpp"
#include "base/isa.hpp"
#include "normal_numbers.hpp"

namespace ioattn_test {
namespace {

using ioattn_reference::Layout;
using Strides = std::array<std::int64_t, 3>;

// Of batch, head, row.
Strides strides_of(Layout layout, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
  if (layout == Layout::bshd) return {rows * heads * cols, cols, heads * cols};
  const std::int64_t gap = layout == Layout::padded ? 3 : 0;
  const std::int64_t row = cols + gap, head = rows * row + gap;
  return {heads * head, head, row};
}

// Heads of an array, random all over.
template <class S>
struct HalfArray {
  HalfArray(Layout layout, std::int64_t batch, std::int64_t heads, std::int64_t rows,
            std::int64_t cols, std::mt19937* random)
      : strides(strides_of(layout, heads, rows, cols)),
        values(std::size_t(span_of(strides, batch, heads, rows, cols))) {
    NormalNumbers<float> normal;
    for (S& x : values) x = element<S>(normal(*random));
  }

  template <class Pointer>
  void add_to(Arrays* arrays, Pointer* slot, std::int64_t* stride) const {
    arrays->add(slot, values.data(), ioattn::index_t(values.size()));
    std::copy(strides.begin(), strides.end(), stride);
  }

  Strides strides;
  std::vector<S> values;
};

// S: of operands and O; G: of the gradients.
template <class S, class G>
void check_sdpa(const HalfSizes& sizes, Layout layout, ioattn_mask mask, std::int64_t M) {
  const auto [batch, heads, kv_heads, n, m, d, e] = sizes;
  std::mt19937 random(7);
  const HalfArray<S> q(layout, batch, heads, n, d, &random),
      k(layout, batch, kv_heads, m, d, &random), v(layout, batch, kv_heads, m, e, &random),
      d_o(layout, batch, heads, n, e, &random), o(layout, batch, heads, n, e, &random);
  const HalfArray<G> dq(layout, batch, heads, n, d, &random),
      dk(layout, batch, kv_heads, m, d, &random), dv(layout, batch, kv_heads, m, e, &random);
  const std::vector<float> lse(std::size_t(batch * heads * n));
  ioattn_sdpa_problem p = {};
  p.struct_size = sizeof p;
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.n = n;
  p.m = m;
  p.d = d;
  p.dv = e;
  p.dtype = dtype_of<S>;
  p.mask = mask;
  p.window_left = 3;
  p.window_right = 2;
  ioattn_sdpa_gradients g = {};
  g.struct_size = sizeof g;
  g.in_f32 = !std::is_same_v<S, G>;
  running = {"sdpa in 16 bits", {n, m, d, e, heads, int(layout), int(mask)}};
  Arrays arrays;
  q.add_to(&arrays, &p.q, p.q_stride);
  k.add_to(&arrays, &p.k, p.k_stride);
  v.add_to(&arrays, &p.v, p.v_stride);
  dq.add_to(&arrays, &g.dq, g.dq_stride);
  dk.add_to(&arrays, &g.dk, g.dk_stride);
  dv.add_to(&arrays, &g.dv, g.dv_stride);
  void *at_d_o = nullptr, *at_o = nullptr, *at_lse = nullptr;
  std::int64_t d_o_stride[3], o_stride[3];
  d_o.add_to(&arrays, &at_d_o, d_o_stride);
  o.add_to(&arrays, &at_o, o_stride);
  arrays.add(&at_lse, lse.data(), ioattn::index_t(lse.size()));
  ioattn_options options = with_threads(0);
  options.fast_memory_words = M;
  arrays.on_both_sides([&] {
    ASSERT_EQ(ioattn_sdpa_forward(&p, &options, at_o, o_stride, at_lse, nullptr), IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(
        ioattn_sdpa_backward(&p, &options, at_d_o, d_o_stride, at_o, o_stride, at_lse, nullptr, &g),
        IOATTN_OK)
        << ioattn_last_error();
  });
}

// Vectors have up to 32 elements: all tails are among so many sizes.
constexpr std::size_t most_tail = 2 * 32 + 1;

template <class S>
void check_all_sdpa() {
  for_each_size(0, most_tail, [](const std::array<std::size_t, 4>& sizes, std::size_t size) {
    std::array<std::int64_t, 4> s = {};
    std::copy(sizes.begin(), sizes.end(), s.begin());
    const auto [n, m, d, dv] = s;
    const Layout layout = ioattn_reference::all_layouts[size % 3];
    check_sdpa<S, S>({1, 1, 1, n, m, d, dv}, layout, IOATTN_MASK_NONE, 0);
    check_sdpa<S, float>({2, 4, 2, n, m, d, dv}, layout, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0);
    check_sdpa<S, S>({1, 2, 2, n, m, d, dv}, layout, IOATTN_MASK_WINDOW_TOP_LEFT, 3000);
  });
}

// Of a plan, and by tiles if products are of pairs. All gradients, then dX alone, which stores no
// product; M in words: results are those of arrays that lie anywhere, too.
template <class S, class G>
void check_layer(const LayerHalfSizes& sizes, ioattn_mask mask, const char* schedule,
                 std::int64_t M = 0) {
  LayerHalfCall<S, G> call(sizes, 7);
  ioattn_layer_problem& p = call.problem;
  p.mask = mask;
  p.window_left = 3;
  p.window_right = 2;
  running = {"layer in 16 bits", {sizes.n, sizes.m, sizes.d, sizes.dv, int(mask), M}};
  Arrays arrays;
  const auto add = [&](auto* slot, const auto& values) {
    arrays.add(slot, values.data(), ioattn::index_t(values.size()));
  };
  add(&p.a1, call.a1);
  add(&p.a2, call.a2);
  add(&p.a3, call.a3);
  add(&p.x, call.x);
  add(&p.y, call.y);
  add(&call.gradients.w_q, call.w_q);
  add(&call.gradients.w_k, call.w_k);
  void** const places[] = {&call.gradients.dx,  &call.gradients.dy,  &call.gradients.da1,
                           &call.gradients.da2, &call.gradients.da3, &call.gradients.dw_q,
                           &call.gradients.dw_k};
  for (std::size_t k = 0; k < call.out.size(); ++k) add(places[k], call.out[k]);
  void *at_d_o = nullptr, *at_o = nullptr, *at_lse = nullptr;
  add(&at_d_o, call.d_o);
  add(&at_o, call.o);
  add(&at_lse, call.lse);
  ioattn_options options = with_threads(0);
  options.schedule = schedule;
  options.fast_memory_words = M;
  LayerHalfCall<S, G> plain(sizes, 7);
  plain.problem.mask = mask;
  plain.problem.window_left = p.window_left;
  plain.problem.window_right = p.window_right;
  if (M > 0) {
    ASSERT_EQ(plain.forward(&options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(plain.backward(&options), IOATTN_OK) << ioattn_last_error();
  }
  const auto expect_same = [M](const void* at, const auto& values) {
    if (M == 0) return;
    EXPECT_EQ(std::memcmp(at, values.data(), values.size() * sizeof(values[0])), 0);
  };
  arrays.on_both_sides([&] {
    ASSERT_EQ(ioattn_layer_forward(&p, &options, at_o, 0, at_lse), IOATTN_OK)
        << ioattn_last_error();
    ASSERT_EQ(ioattn_layer_backward(&p, &options, at_d_o, 0, at_o, 0, at_lse, &call.gradients),
              IOATTN_OK)
        << ioattn_last_error();
    expect_same(at_o, plain.o);
    expect_same(at_lse, plain.lse);
    for (std::size_t k = 0; k < plain.out.size(); ++k) expect_same(*places[k], plain.out[k]);
    ioattn_layer_gradients alone = {};
    alone.struct_size = sizeof alone;
    alone.in_f32 = call.gradients.in_f32;
    alone.dx = call.gradients.dx;
    ASSERT_EQ(ioattn_layer_backward(&p, &options, at_d_o, 0, at_o, 0, at_lse, &alone), IOATTN_OK)
        << ioattn_last_error();
  });
}

void check_all_layers() {
  ioattn::Isa isa{};
  const char* const name = std::getenv("IOATTN_ISA");
  const bool pairs = name != nullptr && parse_isa(name, &isa) && multiplies_pairs(isa);
  const char* const schedule = pairs ? "tile_fused" : nullptr;
  for_each_size(0, most_tail, [&](const std::array<std::size_t, 4>& sizes, std::size_t) {
    std::array<std::int64_t, 4> s = {};
    std::copy(sizes.begin(), sizes.end(), s.begin());
    const auto [n, m, d, dv] = s;
    check_layer<ioattn_bf16, ioattn_bf16>({n, m, d, dv}, IOATTN_MASK_NONE, schedule);
    check_layer<ioattn_bf16, float>({n, m, d, dv, 2, 2}, IOATTN_MASK_WINDOW_TOP_LEFT, schedule);
  });
}

// Products fused or stored, in one pass or more.
template <class S>
void check_layers_in_little_memory() {
  for (const LayerHalfSizes& sizes :
       {LayerHalfSizes{1, 1, 1, 1, 1}, LayerHalfSizes{7, 9, 5, 3, 2},
        LayerHalfSizes{33, 20, 17, 11, 3, 2}, LayerHalfSizes{40, 70, 34, 40, 9}})
    for (const std::int64_t M : {20000, 4000})
      check_layer<S, S>(sizes, IOATTN_MASK_NONE, nullptr, M);
}

TEST_F(GuardedArrays, OfTheLayerIn16BitsWithLittleMemory) {
  for_each_isa([] {
    check_layers_in_little_memory<ioattn_bf16>();
    check_layers_in_little_memory<ioattn_f16>();
  });
  const KeptIsaVariable kept;
  setenv("IOATTN_ISA", name_of(ioattn::Isa::emulated_amx), 1);
  check_layers_in_little_memory<ioattn_bf16>();
}

TEST_F(GuardedArrays, OfTheLayerInBf16) { for_each_isa(check_all_layers); }

TEST_F(GuardedArrays, OfTheLayerInBf16ByTiles) {
  const KeptIsaVariable kept;
  setenv("IOATTN_ISA", name_of(ioattn::Isa::emulated_amx), 1);
  check_all_layers();
}

TEST_F(GuardedArrays, OfSdpaInBf16) { for_each_isa(check_all_sdpa<ioattn_bf16>); }

// By tiles, if only emulated ones.
TEST_F(GuardedArrays, OfSdpaInBf16ByTiles) {
  const KeptIsaVariable kept;
  setenv("IOATTN_ISA", name_of(ioattn::Isa::emulated_amx), 1);
  check_all_sdpa<ioattn_bf16>();
}

TEST_F(GuardedArrays, OfSdpaInF16) { for_each_isa(check_all_sdpa<ioattn_f16>); }

}  // namespace
}  // namespace ioattn_test
