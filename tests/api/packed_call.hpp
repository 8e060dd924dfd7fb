#pragma once

#include "api/sdpa_call.hpp"
#include "reference/cases.hpp"

// A call with sequences of several lengths that follow each other, with a bias or without. Nothing
// of lib is included.
namespace ioattn_test {

using Starts = std::vector<std::int64_t>;

struct PackedCase {
  SdpaSizes sizes;  // n and m: all rows
  Starts q_starts, k_starts;
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = -1, right = -1, q_offset = 0;
  std::size_t bias_heads = 0;  // 0: no bias
};
inline const PackedCase packed_cases[] = {
    {{1, 2, 1, 60, 90, 16, 12}, {0, 20, 20, 47, 60}, {0, 31, 40, 40, 90}},
    // Rows before the first sequence and behind the last belong to none.
    {{1, 3, 3, 50, 50, 9, 17}, {5, 6, 30, 44}, {2, 9, 33, 41}, IOATTN_MASK_CAUSAL_TOP_LEFT},
    {{1, 4, 2, 80, 99, 8, 8}, {0, 33, 80}, {0, 60, 99}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
    {{1, 1, 1, 64, 64, 24, 24}, {0, 7, 64}, {0, 7, 64}, IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 5, 3, 4},
    // Long enough for several threads, and short ones beside it.
    {{1, 2, 2, 800, 790, 64, 64}, {0, 3, 653, 700, 800}, {0, 5, 640, 702, 790}},
    {{1, 2, 1, 30, 30, 8, 8}, {0}, {0}},
    // With a bias of each head, or of all; two of one shape.
    {{1, 4, 2, 61, 77, 12, 20},
     {1, 21, 30, 50, 60},
     {0, 30, 44, 74, 77},
     IOATTN_MASK_NONE,
     -1,
     -1,
     0,
     4},
    {{1, 2, 1, 420, 400, 16, 16},
     {0, 9, 310, 360, 360, 418},
     {3, 20, 300, 300, 330, 398},
     IOATTN_MASK_CAUSAL_BOTTOM_RIGHT,
     -1,
     -1,
     0,
     1},
};

template <class T>
struct PackedCall : SdpaCall<T> {
  explicit PackedCall(const PackedCase& c, Layout layout = Layout::bhsd, std::uint64_t seed = 1)
      : SdpaCall<T>(c.sizes, layout, seed),
        packed(c),
        bias(1, c.bias_heads, c.sizes.n, c.sizes.m, layout),
        d_bias(1, c.bias_heads, c.sizes.n, c.sizes.m, layout) {
    ioattn_sdpa_problem& p = this->problem;
    p.mask = c.mask;
    p.window_left = c.left;
    p.window_right = c.right;
    p.q_offset = c.q_offset;
    p.batch = std::int64_t(c.q_starts.size()) - 1;
    p.q_starts = packed.q_starts.data();
    p.k_starts = packed.k_starts.data();
    if (c.bias_heads > 0) set_bias(seed);
  }

  // Every sequence by a call of its own.
  void run_alone() {
    for (std::size_t b = 0; b + 1 < packed.q_starts.size(); ++b) run_alone(b);
  }

  void poison() {
    SdpaCall<T>::poison();
    d_bias.poison();
  }
  bool untouched() { return SdpaCall<T>::untouched() && d_bias.numbers() == 0; }
  bool gradients_untouched() { return SdpaCall<T>::gradients_untouched() && d_bias.numbers() == 0; }
  std::vector<T> values() {
    std::vector<T> all = SdpaCall<T>::values();
    const std::vector<T> of_bias = d_bias.dense().values;
    all.insert(all.end(), of_bias.begin(), of_bias.end());
    return all;
  }

  PackedCase packed;
  reference::StridedTensor<T> bias, d_bias;

 private:
  // Random, some keys hidden; NaN where no sequence is.
  void set_bias(std::uint64_t seed) {
    const std::size_t size = packed.bias_heads * packed.sizes.n * packed.sizes.m;
    const auto random = reference::random_matrix(size, 1, 1000 + seed).values;
    std::size_t next = 0;
    for (std::size_t h = 0; h < packed.bias_heads; ++h)
      for (std::size_t b = 0; b + 1 < packed.q_starts.size(); ++b)
        for (auto i = packed.q_starts[b]; i < packed.q_starts[b + 1]; ++i)
          for (auto j = packed.k_starts[b]; j < packed.k_starts[b + 1]; ++j, ++next)
            bias(0, h, std::size_t(i), std::size_t(j)) =
                next % 7 == 0 ? -std::numeric_limits<T>::infinity() : T(random[next]);
    ioattn_sdpa_problem& p = this->problem;
    p.bias = bias.data();
    p.bias_batch = 1;
    p.bias_heads = std::int64_t(packed.bias_heads);
    std::copy_n(bias.strides().begin(), 3, p.bias_stride);
    this->gradients.dbias = d_bias.data();
    std::copy_n(d_bias.strides().begin(), 3, this->gradients.dbias_stride);
  }

  void run_alone(std::size_t b) {
    const std::int64_t query = packed.q_starts[b], key = packed.k_starts[b];
    const auto row = [](auto& tensor, std::int64_t index) {
      return tensor.data() + index * tensor.strides()[2];
    };
    ioattn_sdpa_problem p = this->problem;
    p.batch = 1;
    p.q_starts = p.k_starts = nullptr;
    p.n = packed.q_starts[b + 1] - query;
    p.m = packed.k_starts[b + 1] - key;
    p.q = row(this->q, query);
    p.k = row(this->k, key);
    p.v = row(this->v, key);
    ioattn_sdpa_gradients g = this->gradients;
    g.dq = row(this->dq, query);
    g.dk = row(this->dk, key);
    g.dv = row(this->dv, key);
    if (p.bias != nullptr) {
      p.bias = row(bias, query) + key;
      g.dbias = row(d_bias, query) + key;
    }
    T *own_o = row(this->o, query), *own_lse = this->lse.data() + query;
    const auto strides = [](auto& tensor) { return tensor.strides().data(); };
    ASSERT_EQ(
        ioattn_sdpa_forward(&p, nullptr, own_o, strides(this->o), own_lse, strides(this->lse)),
        IOATTN_OK);
    ASSERT_EQ(ioattn_sdpa_backward(&p, nullptr, row(this->d_o, query), strides(this->d_o), own_o,
                                   strides(this->o), own_lse, strides(this->lse), &g),
              IOATTN_OK)
        << ioattn_last_error();
  }
};

}  // namespace ioattn_test
