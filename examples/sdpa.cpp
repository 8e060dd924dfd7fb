// Attention by head from C++: two batch entries with 4 query heads on 2 heads of keys, causal, in
// bfloat16 as [batch, n, heads, d], with gradients in float.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ioattn/ioattn.hpp>
#include <vector>

namespace {

// A bfloat16 is the upper half of a float.
ioattn_bf16 narrow(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

float wide(ioattn_bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

std::vector<ioattn_bf16> values(std::int64_t count, std::int64_t first) {
  std::vector<ioattn_bf16> array;
  for (std::int64_t i = 0; i < count; ++i) {
    array.push_back(narrow(static_cast<float>((first + i * 7919) % 1000) / 500 - 1));
  }
  return array;
}

}  // namespace

int main() {
  const std::int64_t batch = 2, heads = 4, kv_heads = 2, n = 96, d = 64;
  const auto q = values(batch * n * heads * d, 1), d_o = values(batch * n * heads * d, 2);
  const auto k = values(batch * n * kv_heads * d, 3), v = values(batch * n * kv_heads * d, 4);
  std::vector<ioattn_bf16> o(q.size());
  std::vector<float> lse(static_cast<std::size_t>(batch * heads * n));
  std::vector<float> dq(q.size()), dk(k.size()), dv(v.size());

  // [sdpa]
  using Bf16 = ioattn::Tensor<ioattn_bf16>;
  using Input = ioattn::Tensor<const ioattn_bf16>;
  using Float = ioattn::Tensor<float>;
  ioattn::Sdpa<ioattn_bf16> sdpa;
  sdpa.q = Input::bshd(q.data(), batch, n, heads, d);  // [batch, n, heads, d]
  sdpa.k = Input::bshd(k.data(), batch, n, kv_heads, d);
  sdpa.v = Input::bshd(v.data(), batch, n, kv_heads, d);
  sdpa.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
  const Bf16 o_view = Bf16::bshd(o.data(), batch, n, heads, d);
  const Float lse_view(lse.data(), batch, heads, 1, n);
  ioattn::forward(sdpa, o_view, lse_view);

  ioattn::SdpaGradients<float> gradients;  // in float: not rounded to 16 bits
  gradients.dq = Float::bshd(dq.data(), batch, n, heads, d);
  gradients.dk = Float::bshd(dk.data(), batch, n, kv_heads, d);
  gradients.dv = Float::bshd(dv.data(), batch, n, kv_heads, d);
  ioattn::backward(sdpa, Input::bshd(d_o.data(), batch, n, heads, d), o_view, lse_view, gradients);
  // [sdpa]

  // The first query of a head sees one key, whose value is its output. Weights of a query have the
  // sum 1, so dV and dO have the same sum.
  bool same = true;
  for (std::size_t c = 0; c < d; ++c) same = same && o[c].bits == v[c].bits;
  double sum = 0, expected = 0, size = 0;
  for (const float value : dv) sum += static_cast<double>(value);
  for (const ioattn_bf16 value : d_o) {
    expected += static_cast<double>(wide(value));
    size += std::fabs(static_cast<double>(wide(value)));
  }
  std::printf("O = V for the first query: %s; sum of dV = %.3f, of dO = %.3f\n",
              same ? "yes" : "no", sum, expected);
  return same && std::fabs(sum - expected) < 1e-3 * size ? 0 : 1;
}
