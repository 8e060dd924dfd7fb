// Every way for SDPA to be refused: the status, a message that names what is wrong, outputs
// untouched. And what is not to be refused: arrays that interleave.

#include "api/refused.hpp"
#include "api/sdpa_call.hpp"

#include <functional>

namespace ioattn_test {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
const SdpaSizes sizes = {2, 4, 2, 6, 7, 5, 3};

// Both passes of a problem that `change` has made wrong.
void expect_both_refused(const std::function<void(SdpaCall<float>*)>& change, ioattn_status wanted,
                         const char* word) {
  SCOPED_TRACE(word);
  SdpaCall<float> call(sizes);
  change(&call);
  expect_refused(call.forward(), wanted, word);
  expect_refused(call.backward(), wanted, word);
  EXPECT_TRUE(call.untouched());
}

// None is gone along.
TEST(SdpaStatus, TheStrideOfASingleEntryMayBeAnything) {
  SdpaCall<float> call({1, 1, 1, 5, 6, 4, 4});
  call.problem.q_stride[0] = -5;
  call.problem.q_stride[1] = most;
  call.problem.k_stride[1] = -7;
  call.problem.v_stride[0] = call.problem.v_stride[1] = -most - 1;
  ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
  ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
  call.expect_forward();
  call.expect_backward();
}

// Nor do others follow from it.
TEST(SdpaStatus, TheStrideOfASingleRowMayBeAnything) {
  for (const std::int64_t stride : {std::int64_t{1000}, std::int64_t{-5}, most}) {
    SdpaCall<float> call({2, 4, 2, 1, 6, 4, 4});
    call.problem.q_stride[0] = call.problem.q_stride[1] = 0;
    call.problem.q_stride[2] = stride;
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    call.expect_backward();
  }
}

TEST(SdpaStatus, Problems) {
  using Call = SdpaCall<float>;
  const auto refused = [](std::int64_t ioattn_sdpa_problem::*field, std::int64_t value,
                          const char* word, ioattn_status wanted = IOATTN_INVALID_ARGUMENT) {
    expect_both_refused([=](Call* call) { call->problem.*field = value; }, wanted, word);
  };
  for (std::int64_t ioattn_sdpa_problem::*size :
       {&ioattn_sdpa_problem::batch, &ioattn_sdpa_problem::heads, &ioattn_sdpa_problem::kv_heads,
        &ioattn_sdpa_problem::n, &ioattn_sdpa_problem::m, &ioattn_sdpa_problem::d,
        &ioattn_sdpa_problem::dv}) {
    refused(size, -1, "negative");
    refused(size, -most - 1, "negative");
    if (size != &ioattn_sdpa_problem::kv_heads && size != &ioattn_sdpa_problem::heads) {
      refused(size, most, "64 bits", IOATTN_SIZE_OVERFLOW);
      refused(size, most / 64, "64 bits", IOATTN_SIZE_OVERFLOW);
    }
  }
  refused(&ioattn_sdpa_problem::kv_heads, 3, "multiple");
  refused(&ioattn_sdpa_problem::kv_heads, 0, "multiple");
  refused(&ioattn_sdpa_problem::q_offset, (std::int64_t(1) << 59) + 1, "q_offset");
  refused(&ioattn_sdpa_problem::k_offset, -most, "k_offset");
  refused(&ioattn_sdpa_problem::k_offset, (std::int64_t(1) << 59) + 1, "k_offset");

  expect_both_refused([](Call* call) { call->problem.struct_size -= 8; }, IOATTN_INVALID_ARGUMENT,
                      "struct_size");
  expect_both_refused([](Call* call) { call->problem.q = nullptr; }, IOATTN_INVALID_ARGUMENT,
                      "Q is null");
  expect_both_refused([](Call* call) { call->problem.k = nullptr; }, IOATTN_INVALID_ARGUMENT,
                      "K is null");
  expect_both_refused([](Call* call) { call->problem.v = nullptr; }, IOATTN_INVALID_ARGUMENT,
                      "V is null");
  for (const double scale : {HUGE_VAL, -1e39, 1e-46})
    expect_both_refused([scale](Call* call) { call->problem.scale = scale; },
                        IOATTN_INVALID_ARGUMENT, scale == 1e-46 ? "is 0 in float32" : "not finite");
  expect_both_refused(
      [](Call* call) {
        call->problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
        call->problem.window_left = -2;
      },
      IOATTN_INVALID_ARGUMENT, "window_left");
  expect_both_refused([](Call* call) { call->problem.q_stride[2] = 4; }, IOATTN_INVALID_ARGUMENT,
                      "Q: a row stride of 4 is below the row length 5");
  expect_both_refused([](Call* call) { call->problem.k_stride[1] = -7; }, IOATTN_INVALID_ARGUMENT,
                      "K: a stride is negative");
  expect_both_refused([](Call* call) { call->problem.v_stride[0] = most; }, IOATTN_SIZE_OVERFLOW,
                      "V: its size");
  expect_both_refused(
      [](Call* call) {
        call->problem.v_stride[0] = call->problem.v_stride[1] = 0;
        call->problem.v_stride[2] = most;
      },
      IOATTN_SIZE_OVERFLOW, "V: its size");
  expect_both_refused(
      [](Call* call) { call->problem.q = reinterpret_cast<const char*>(call->problem.q) + 2; },
      IOATTN_INVALID_ARGUMENT, "Q is not aligned");

  SdpaCall<float> call(sizes);
  expect_refused(ioattn_sdpa_forward(nullptr, nullptr, call.o.data(), nullptr, nullptr, nullptr),
                 IOATTN_INVALID_ARGUMENT, "problem is null");
  for (const auto& [schedule, word] :
       {std::pair("stationary", "row_stream"), std::pair("none", "no schedule")}) {
    ioattn_options options = {};
    options.struct_size = sizeof options;
    options.schedule = schedule;
    const ioattn_status wanted =
        std::string(schedule) == "none" ? IOATTN_INVALID_ARGUMENT : IOATTN_UNSUPPORTED;
    expect_refused(call.forward(&options), wanted, word);
    expect_refused(call.backward(&options), wanted, word);
  }
  ioattn_options options = {};
  options.struct_size = sizeof options;
  options.fast_memory_words = 4;
  expect_refused(call.forward(&options), IOATTN_FAST_MEMORY_TOO_SMALL, "the least is");
  expect_refused(call.backward(&options), IOATTN_FAST_MEMORY_TOO_SMALL, "the least is");
  options.fast_memory_words = 0;
  options.memory_limit = 40;
  expect_refused(call.backward(&options), IOATTN_MEMORY_LIMIT, "scratch");
  EXPECT_TRUE(call.untouched());
}

TEST(SdpaStatus, OutputsAndForwardResults) {
  SdpaCall<float> call(sizes);
  const auto backward = [&](const void* d_o, const void* o, const void* lse) {
    return ioattn_sdpa_backward(&call.problem, nullptr, d_o, nullptr, o, nullptr, lse, nullptr,
                                &call.gradients);
  };
  expect_refused(backward(nullptr, call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT,
                 "dO is null");
  expect_refused(backward(call.d_o.data(), nullptr, call.lse.data()), IOATTN_INVALID_ARGUMENT,
                 "O is null");
  expect_refused(backward(call.d_o.data(), call.o.data(), nullptr), IOATTN_INVALID_ARGUMENT,
                 "LSE is null");
  expect_refused(ioattn_sdpa_backward(&call.problem, nullptr, call.d_o.data(), nullptr,
                                      call.o.data(), nullptr, call.lse.data(), nullptr, nullptr),
                 IOATTN_INVALID_ARGUMENT, "gradients is null");
  const std::int64_t short_rows[3] = {0, 0, 2}, one_head[3] = {0, 1, 3}, one_entry[2] = {1, 6};
  const auto forward = [&](const std::int64_t* o_stride, const std::int64_t* lse_stride) {
    return ioattn_sdpa_forward(&call.problem, nullptr, call.o.data(), o_stride, call.lse.data(),
                               lse_stride);
  };
  expect_refused(forward(short_rows, nullptr), IOATTN_INVALID_ARGUMENT, "O: a row stride");
  expect_refused(forward(one_head, nullptr), IOATTN_INVALID_ARGUMENT, "O: its strides");
  expect_refused(forward(nullptr, one_entry), IOATTN_INVALID_ARGUMENT, "LSE: its strides");
  call.gradients.struct_size = 8;
  expect_refused(backward(call.d_o.data(), call.o.data(), call.lse.data()), IOATTN_INVALID_ARGUMENT,
                 "struct_size");
  EXPECT_TRUE(call.untouched());
}

// One buffer of [batch, n, 3, heads, d]: Q, K and V interleave with each other; so do O, dQ, ...
TEST(SdpaStatus, PackedHeadsDoNotOverlap) {
  constexpr std::size_t batch = 2, heads = 2, n = 9, d = 4;
  const SdpaSizes packed_sizes = {batch, heads, heads, n, n, d, d};
  SdpaCall<float> plain(packed_sizes);
  ASSERT_EQ(plain.forward(), IOATTN_OK);
  ASSERT_EQ(plain.backward(), IOATTN_OK);

  constexpr std::size_t slots = 8;  // Q K V dO O dQ dK dV
  constexpr std::int64_t head = d, row = slots * heads * d, entry = n * row;
  std::vector<float> buffer(batch * n * slots * heads * d);
  const auto slot = [&](std::size_t k) { return buffer.data() + k * heads * d; };
  const auto at = [&](std::size_t k, std::size_t b, std::size_t h, std::size_t i) {
    return slot(k) + std::int64_t(b) * entry + std::int64_t(h) * head + std::int64_t(i) * row;
  };
  const reference::Tensor<double>* inputs[] = {&plain.inputs.Q, &plain.inputs.K, &plain.inputs.V,
                                               &plain.inputs.dO};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < d; ++j) at(k, b, h, i)[j] = float((*inputs[k])(b, h, i, j));
  const std::int64_t stride[3] = {entry, head, row};
  ioattn_sdpa_problem problem = plain.problem;
  problem.q = slot(0);
  problem.k = slot(1);
  problem.v = slot(2);
  ioattn_sdpa_gradients gradients = plain.gradients;
  gradients.dq = slot(5);
  gradients.dk = slot(6);
  gradients.dv = slot(7);
  for (std::int64_t* to : {problem.q_stride, problem.k_stride, problem.v_stride,
                           gradients.dq_stride, gradients.dk_stride, gradients.dv_stride})
    std::copy_n(stride, 3, to);
  std::vector<float> lse(batch * heads * n);
  ASSERT_EQ(ioattn_sdpa_forward(&problem, nullptr, slot(4), stride, lse.data(), nullptr), IOATTN_OK)
      << ioattn_last_error();
  ASSERT_EQ(ioattn_sdpa_backward(&problem, nullptr, slot(3), stride, slot(4), stride, lse.data(),
                                 nullptr, &gradients),
            IOATTN_OK)
      << ioattn_last_error();
  reference::StridedTensor<float>* outputs[] = {&plain.o, &plain.dq, &plain.dk, &plain.dv};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < d; ++j)
            EXPECT_EQ(at(4 + k, b, h, i)[j], (*outputs[k])(b, h, i, j));

  // One element further and they do.
  const std::vector<float> before = buffer;
  for (const std::int64_t shift : {std::int64_t(1), -std::int64_t(1), row + 1, entry - 1}) {
    expect_refused(
        ioattn_sdpa_forward(&problem, nullptr, slot(1) + shift, stride, lse.data(), nullptr),
        IOATTN_INVALID_ARGUMENT, "overlap");
    expect_refused(ioattn_sdpa_forward(&problem, nullptr, slot(4), stride, slot(4) + 1, nullptr),
                   IOATTN_INVALID_ARGUMENT, "O and LSE overlap");
  }
  gradients.dk = slot(5) + d - 1;
  expect_refused(ioattn_sdpa_backward(&problem, nullptr, slot(3), stride, slot(4), stride,
                                      lse.data(), nullptr, &gradients),
                 IOATTN_INVALID_ARGUMENT, "dQ and dK overlap");
  EXPECT_EQ(std::memcmp(before.data(), buffer.data(), before.size() * sizeof(float)), 0);
}

// The exact rule against one that looks at every element, for random tensors of few elements.
TEST(SdpaStatus, OverlapsAreThoseOfElements) {
  std::uint64_t state = 7;
  const auto random = [&](std::int64_t last) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return std::int64_t(state >> 33) % (last + 1);
  };
  std::vector<float> memory(4000, 0.25f);
  int overlapping = 0, apart = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    ioattn_sdpa_problem p = {};
    p.struct_size = sizeof p;
    p.batch = 1 + random(1);
    p.heads = p.kv_heads = 1 + random(2);
    p.n = 1 + random(3);
    p.m = 1;
    p.d = p.dv = 1 + random(3);
    p.q = memory.data() + random(60);
    const std::vector<float> keys(64, 0.5f);
    p.k = p.v = keys.data();
    std::int64_t o_stride[3];
    // Strides that span what is inside, in one of two orders.
    for (std::int64_t* stride : {p.q_stride, o_stride}) {
      if (random(1) == 0) {
        stride[2] = p.d + random(9);
        stride[1] = p.n * stride[2] + random(9);
      } else {
        stride[1] = p.d + random(9);
        stride[2] = p.heads * stride[1] + random(9);
      }
      stride[0] = std::max(p.n * stride[2], p.heads * stride[1]) + random(9);
    }
    float* o = memory.data() + random(120);
    std::vector<char> used(4000, 0);
    bool overlap = false;
    for (int tensor = 0; tensor < 2; ++tensor)
      for (std::int64_t b = 0; b < p.batch; ++b)
        for (std::int64_t h = 0; h < p.heads; ++h)
          for (std::int64_t i = 0; i < p.n; ++i)
            for (std::int64_t j = 0; j < p.d; ++j) {
              const std::int64_t* s = tensor == 0 ? p.q_stride : o_stride;
              const float* first = tensor == 0 ? static_cast<const float*>(p.q) : o;
              const std::size_t place =
                  std::size_t(first - memory.data() + b * s[0] + h * s[1] + i * s[2] + j);
              if (tensor == 0) used[place] = 1;
              overlap = overlap || (tensor == 1 && used[place] != 0);
            }
    const ioattn_status status = ioattn_sdpa_forward(&p, nullptr, o, o_stride, nullptr, nullptr);
    EXPECT_EQ(status, overlap ? IOATTN_INVALID_ARGUMENT : IOATTN_OK) << trial;
    ++(overlap ? overlapping : apart);
    std::fill(memory.begin(), memory.end(), 0.25f);
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_GT(apart, 500);
}

TEST(SdpaStatus, Merge) {
  std::vector<float> o(24, 7), lse(6, 7), part_o(24, 1), part_lse(6, 0);
  const std::vector<float> o_before = o, lse_before = lse;
  ioattn_merge_shape shape = {sizeof shape, 1, 2, 3, 4, IOATTN_F32};
  ioattn_partial part = {};
  part.o = part_o.data();
  part.lse = part_lse.data();
  const auto merge = [&](const ioattn_partial* parts, std::int64_t count, void* to) {
    return ioattn_merge(&shape, nullptr, parts, count, to, nullptr, lse.data(), nullptr);
  };
  expect_refused(ioattn_merge(nullptr, nullptr, &part, 1, o.data(), nullptr, nullptr, nullptr),
                 IOATTN_INVALID_ARGUMENT, "shape is null");
  expect_refused(merge(nullptr, 1, o.data()), IOATTN_INVALID_ARGUMENT, "parts is null");
  expect_refused(merge(&part, -1, o.data()), IOATTN_INVALID_ARGUMENT, "negative");
  for (const int by : {8, 4, 2})
    expect_refused(merge(&part, most / by + 1, o.data()), IOATTN_SIZE_OVERFLOW, "64 bits");
  expect_refused(merge(&part, most, o.data()), IOATTN_SIZE_OVERFLOW, "64 bits");
  expect_refused(merge(&part, 1, part_o.data() + 3), IOATTN_INVALID_ARGUMENT, "overlap");
  part.lse = nullptr;
  expect_refused(merge(&part, 1, o.data()), IOATTN_INVALID_ARGUMENT, "LSE of a part is null");
  part.lse = part_lse.data();
  part.o = nullptr;
  expect_refused(merge(&part, 1, o.data()), IOATTN_INVALID_ARGUMENT, "O of a part is null");
  shape.n = -1;
  expect_refused(merge(&part, 1, o.data()), IOATTN_INVALID_ARGUMENT, "negative");
  shape.n = most;
  expect_refused(merge(&part, 1, o.data()), IOATTN_SIZE_OVERFLOW, "64 bits");
  shape.n = 3;
  shape.struct_size = 4;
  expect_refused(merge(&part, 1, o.data()), IOATTN_INVALID_ARGUMENT, "struct_size");
  EXPECT_EQ(o, o_before);
  EXPECT_EQ(lse, lse_before);
  // LSE alone needs no O.
  shape.struct_size = sizeof shape;
  EXPECT_EQ(merge(&part, 1, nullptr), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(lse, part_lse);
}

}  // namespace
}  // namespace ioattn_test
