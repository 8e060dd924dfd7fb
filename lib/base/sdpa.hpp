#pragma once

#include <string>
#include <string_view>

#include "base/observer.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"
#include "base/tensor_view.hpp"

namespace ioattn {

// Sizes of the SDPA problem: Q [batch, heads, n, d], K [batch, kv_heads, m, d],
// V [batch, kv_heads, m, dv] -> O [batch, heads, n, dv], LSE [batch, heads, n]. Query head h sees
// the keys of head h / (heads / kv_heads).
struct SdpaShape {
  index_t batch = 1, heads = 1, kv_heads = 1;
  index_t n = 0, m = 0, d = 0, dv = 0;
  Mask mask = {};
  // Of the bias [bias_batch, bias_heads, n, m] of the scores: each 1, for all, or batch and heads;
  // 0: there is none.
  index_t bias_batch = 0, bias_heads = 0;
  bool operator==(const SdpaShape&) const = default;

  index_t group() const { return heads / kv_heads; }  // query heads that share keys
  index_t all_heads() const { return batch * heads; }
  index_t all_kv_heads() const { return batch * kv_heads; }
  index_t all_queries() const { return all_heads() * n; }
  index_t all_biases() const { return bias_batch * bias_heads; }
  bool has_bias() const { return all_biases() > 0; }
  // What one head is for the passes: S := scale Q, A2 := K, h := V.
  LayerShape head() const { return {n, m, d, dv, Tie::none, mask}; }

  // How many keys, from the first on, every query sees, if they all see the same; else 0.
  index_t keys_of_all() const {
    const Interval queries = {0, n}, all = mask.of_every(queries, m);
    return all == mask.of_any(queries, m) && all.begin == 0 ? all.size() : 0;
  }
  // Forward, query heads that share keys may be one head with the rows of all: keys pass by once
  // for the group, and few queries fill more lanes. They may not where a mask or a bias tells rows
  // apart, nor where it hides the first keys, as blocks of keys are counted from these.
  bool has_grouped_rows() const {
    return kv_heads > 0 && group() > 1 && !has_bias() && keys_of_all() > 0;
  }
  // Of `together` heads each, which divides the group.
  SdpaShape with_grouped_rows(index_t together) const {
    return {batch, heads / together, kv_heads, together * n, keys_of_all(), d, dv};
  }
  // Of one thread: of all of the group.
  SdpaShape with_grouped_rows() const {
    return has_grouped_rows() ? with_grouped_rows(group()) : with_seen_keys();
  }
  // Forward, without the keys that nobody sees, and the mask, where it hides no others: of which a
  // single query has no use.
  SdpaShape with_seen_keys() const {
    if (has_bias() || keys_of_all() == 0) return *this;
    return {batch, heads, kv_heads, n, keys_of_all(), d, dv};
  }
};

// Sizes of 0 cost nothing: blocks are chosen, and costs told, for at least 1.
SdpaShape shape_to_plan(SdpaShape shape);

// A test, benchmark or command line case.
struct SdpaProblem {
  SdpaShape shape;
  DType dtype = DType::f32;
  double scale = 0;  // 0: 1 / sqrt(d)
  bool operator==(const SdpaProblem&) const = default;
};

// Text form, e.g. "sdpa:b2,h8,kv2,n512,m512,d64,v64,bf16,causal". Fields in any order, each at most
// once; n and d are required, b and h default to 1, kv to h, m to n, v to d, f32; masks as for
// layer problems, "sK" is the scale, "bias2x1" the batch and heads of a bias. On failure returns
// false and says why.
bool parse_problem(std::string_view text, SdpaProblem* problem, std::string* error);
std::string to_text(const SdpaProblem& problem);

double scale_of(const SdpaProblem& problem);

// Of a problem in 16 bits LSE is in f32.
template <class T>
struct SdpaInputs {
  TensorView<const T> q, k, v;
  TensorView<const T> bias = {};  // null data: none
};

// Block sizes of the phases: row_stream in the h-form with stored products, forward or backward, or
// forward tile_fused, and col_stream or tile_fused; dQ is made by either.
struct SdpaBlocks {
  Blocks rows, keys;
  Schedule by_keys = Schedule::col_stream;  // what the blocks of keys are of
  bool operator==(const SdpaBlocks&) const = default;
};

// Gradients of <O, dO>, any subset.
struct SdpaSet {
  bool dQ = false, dK = false, dV = false;
  bool accumulate = false;  // added to what the outputs hold
  bool dBias = false;
  bool in_f32 = false;  // of a problem in 16 bits, whose gradients are rounded to these otherwise
  bool operator==(const SdpaSet&) const = default;

  // Whether sums are made in f32 memory of their own and rounded to that of the caller's.
  bool rounds(DType dtype) const { return is_half(dtype) && !in_f32; }

  bool is_empty() const { return !dQ && !dK && !dV && !dBias; }
  bool keys() const { return dK || dV; }
  bool delta() const { return dQ || dK || dBias; }  // of dV alone it is no part
  // dQ is made by a pass over the queries, or on the way of one over the keys, by tiles alone too;
  // dBias by the former.
  bool may_be_one_pass(Schedule by_keys) const {
    return dQ && !dBias && (keys() || by_keys == Schedule::tile_fused);
  }
  bool in_one_pass(const SdpaBlocks& blocks) const {
    return blocks.keys.one_pass && may_be_one_pass(blocks.by_keys);
  }
  bool query_pass(const SdpaBlocks& blocks) const { return dBias || (dQ && !in_one_pass(blocks)); }
  bool key_pass(const SdpaBlocks& blocks) const { return keys() || in_one_pass(blocks); }
  KeyPassKind key_kind(bool one_pass) const { return {key_gradients(), one_pass && dQ}; }
  KeyPassKind key_kind(const SdpaBlocks& blocks) const { return key_kind(in_one_pass(blocks)); }
  KeyGradients key_gradients() const {
    return dK && dV ? KeyGradients::both
           : dK     ? KeyGradients::keys
           : dV     ? KeyGradients::values
                    : KeyGradients::none;
  }
};

// They by name, in the order in which they are told; operands as the passes call them.
struct NamedSdpaGradient {
  const char* name;
  Operand operand;
  bool SdpaSet::*wanted;
};
inline constexpr NamedSdpaGradient named_sdpa_gradients[] = {
    {"dQ", Operand::dQ, &SdpaSet::dQ},
    {"dK", Operand::dA2, &SdpaSet::dK},
    {"dV", Operand::W, &SdpaSet::dV},
    {"dBias", Operand::dBias, &SdpaSet::dBias}};

// The matrices; null data: not wanted.
template <class T>
struct SdpaGradients {
  TensorView<T> dq, dk, dv;
  bool accumulate = false;
  TensorView<T> d_bias = {};

  SdpaSet set() const {
    return {dq.data != nullptr, dk.data != nullptr, dv.data != nullptr, accumulate,
            d_bias.data != nullptr};
  }
};

// What blocks of the forward pass are of: tile_fused holds no rows.
inline Schedule forward_schedule(const Blocks& rows) {
  return rows.r > 0 ? Schedule::row_stream : Schedule::tile_fused;
}

}  // namespace ioattn
