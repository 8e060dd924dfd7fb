// What else SDPA takes, with every array of the caller flush against pages that fault: a bias and
// its gradient, packed sequences, gradients that are added to, and parts that are merged.

#include "api/guarded_arrays.hpp"
#include "api/sdpa_call.hpp"

namespace ioattn_test {
namespace {

using Call = SdpaCall<float>;
constexpr std::size_t most_tail = 2 * 16 + 1;

// Arrays of a call, without its problem's sizes: of packed sequences one entry has all rows.
struct Placed {
  explicit Placed(Call* call) {
    ioattn_sdpa_problem& p = call->problem;
    ioattn_sdpa_gradients& g = call->gradients;
    add(&p.q, call->q);
    add(&p.k, call->k);
    add(&p.v, call->v);
    add(&d_o, call->d_o);
    add(&o, call->o);
    add(&lse, call->lse);
    add(&g.dq, call->dq);
    add(&g.dk, call->dk);
    add(&g.dv, call->dv);
  }
  // From its first element to its last.
  template <class Pointer>
  void add(Pointer* slot, const reference::StridedTensor<float>& tensor) {
    const auto all = tensor.dense();
    arrays.add(slot, tensor.data(),
               span_of(tensor.strides(), std::int64_t(all.batch), std::int64_t(all.heads),
                       std::int64_t(all.rows), std::int64_t(all.cols)));
  }
  void run(const Call& call) {
    arrays.on_both_sides([&] {
      ASSERT_EQ(ioattn_sdpa_forward(&call.problem, nullptr, o, call.o.strides().data(), lse,
                                    call.lse.strides().data()),
                IOATTN_OK)
          << ioattn_last_error();
      ASSERT_EQ(ioattn_sdpa_backward(&call.problem, nullptr, d_o, call.d_o.strides().data(), o,
                                     call.o.strides().data(), lse, call.lse.strides().data(),
                                     &call.gradients),
                IOATTN_OK)
          << ioattn_last_error();
    });
  }

  Arrays arrays;
  float *d_o = nullptr, *o = nullptr, *lse = nullptr;
};

// Every size with every tail, and a layout for each.
template <class Act>
void for_each_call(const char* what, std::size_t least, const Act& act) {
  for_each_size(least, most_tail, [&](const std::array<std::size_t, 4>& s, std::size_t size) {
    const auto [n, m, d, dv] = s;
    running = {what, {}};
    std::copy(s.begin(), s.end(), running.numbers);
    act(SdpaSizes{2, 4, 2, n, m, d, dv}, reference::all_layouts[size % 3]);
  });
}

void check_bias(const SdpaSizes& sizes, Layout layout) {
  for (const bool is_shared : {false, true}) {
    Call call(sizes, layout);
    const std::size_t batch = is_shared ? 1 : sizes.batch, heads = is_shared ? 1 : sizes.heads;
    const reference::StridedTensor<float> bias(
        reference::random_sdpa(batch, heads, heads, sizes.n, 1, sizes.m, 1, 3).Q, layout);
    const reference::StridedTensor<float> d_bias(batch, heads, sizes.n, sizes.m, layout);
    call.problem.bias_batch = std::int64_t(batch);
    call.problem.bias_heads = std::int64_t(heads);
    std::copy_n(bias.strides().begin(), 3, call.problem.bias_stride);
    std::copy_n(d_bias.strides().begin(), 3, call.gradients.dbias_stride);
    Placed placed(&call);
    placed.add(&call.problem.bias, bias);
    placed.add(&call.gradients.dbias, d_bias);
    placed.run(call);
  }
}

TEST_F(GuardedArrays, OfSdpaWithABias) {
  for_each_isa([] { for_each_call("sdpa with a bias", 1, check_bias); });
}

// What is there before is random, too: the inputs.
void check_accumulate(const SdpaSizes& sizes, Layout layout) {
  Call call(sizes, layout);
  call.dq.set(call.inputs.Q);
  call.dk.set(call.inputs.K);
  call.dv.set(call.inputs.V);
  call.gradients.accumulate = 1;
  Placed placed(&call);
  placed.run(call);
}

TEST_F(GuardedArrays, OfSdpaThatAddsToGradients) {
  for_each_isa([] { for_each_call("sdpa that adds", 1, check_accumulate); });
}

// Three sequences, the second without queries, fill all rows; with a bias or without.
void check_packed(const SdpaSizes& sizes, Layout layout) {
  Call call({1, sizes.heads, sizes.kv_heads, sizes.n, sizes.m, sizes.d, sizes.dv}, layout);
  const std::int64_t n = call.problem.n, m = call.problem.m;
  const std::int64_t q_starts[] = {0, n / 2, n / 2, n}, k_starts[] = {0, m / 3, m / 2, m};
  call.problem.batch = 3;
  call.problem.q_starts = q_starts;
  call.problem.k_starts = k_starts;
  call.problem.mask = IOATTN_MASK_CAUSAL_BOTTOM_RIGHT;
  Placed(&call).run(call);

  const reference::StridedTensor<float> bias(
      reference::random_sdpa(1, sizes.heads, 1, sizes.n, 1, sizes.m, 1, 3).Q, layout);
  const reference::StridedTensor<float> d_bias(1, sizes.heads, sizes.n, sizes.m, layout);
  call.problem.bias_batch = 1;
  call.problem.bias_heads = std::int64_t(sizes.heads);
  std::copy_n(bias.strides().begin(), 3, call.problem.bias_stride);
  std::copy_n(d_bias.strides().begin(), 3, call.gradients.dbias_stride);
  Placed biased(&call);
  biased.add(&call.problem.bias, bias);
  biased.add(&call.gradients.dbias, d_bias);
  biased.run(call);
}

TEST_F(GuardedArrays, OfPackedSequences) {
  for_each_isa([] { for_each_call("packed sequences", 1, check_packed); });
}

void check_merge(const SdpaSizes& sizes, Layout layout) {
  Call whole(sizes, layout), one(sizes, layout, 2), other(sizes, layout, 3);
  Arrays arrays;
  ioattn_partial parts[2] = {};
  const auto span = [&](const auto& tensor, std::size_t rows, std::size_t cols) {
    return span_of(tensor.strides(), std::int64_t(sizes.batch), std::int64_t(sizes.heads),
                   std::int64_t(rows), std::int64_t(cols));
  };
  Call* const calls[] = {&one, &other};
  for (std::size_t i = 0; i < 2; ++i) {
    Call& part = *calls[i];
    ASSERT_EQ(part.forward(), IOATTN_OK);
    arrays.add(&parts[i].o, part.o.data(), span(part.o, sizes.n, sizes.dv));
    arrays.add(&parts[i].lse, part.lse.data(), span(part.lse, 1, sizes.n));
    std::copy_n(part.o.strides().begin(), 3, parts[i].o_stride);
    std::copy_n(part.lse.strides().begin(), 2, parts[i].lse_stride);
  }
  float *o = nullptr, *lse = nullptr;
  arrays.add(&o, whole.o.data(), span(whole.o, sizes.n, sizes.dv));
  arrays.add(&lse, whole.lse.data(), span(whole.lse, 1, sizes.n));
  const ioattn_sdpa_problem& p = whole.problem;
  const ioattn_merge_shape shape = {sizeof shape, p.batch, p.heads, p.n, p.dv, p.dtype};
  arrays.on_both_sides([&] {
    ASSERT_EQ(ioattn_merge(&shape, nullptr, parts, 2, o, whole.o.strides().data(), lse,
                           whole.lse.strides().data()),
              IOATTN_OK)
        << ioattn_last_error();
  });
}

TEST_F(GuardedArrays, OfMerge) { for_each_call("merge", 1, check_merge); }

}  // namespace
}  // namespace ioattn_test
