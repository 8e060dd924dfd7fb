#include "theory/sdpa_bounds.hpp"

#include "theory/core_bounds.hpp"

namespace ioattn::theory {
namespace {

// Totals over heads, and over groups: the heads of one are rows that see the same keys.
struct Totals {
  double pairs, rows, columns, d, e, bias;

  explicit Totals(const SdpaShape& shape) {
    const LayerShape head = shape.head(), part = visible_part(head);
    const double of_head = pairs_of(head);
    pairs = double(shape.all_heads()) * of_head;
    rows = double(shape.all_heads()) * double(part.n);
    columns = double(shape.all_kv_heads()) * double(part.m);
    d = double(shape.d);
    e = double(shape.dv);
    bias = double(shape.all_biases()) * of_head;
  }
};

}  // namespace

AlgorithmClass class_of(const SdpaSet& set, const SdpaBlocks& blocks) {
  return set.query_pass(blocks) && set.key_pass(blocks) ? AlgorithmClass::P : AlgorithmClass::F;
}

BoundSet sdpa_forward_bounds(const SdpaShape& shape, index_t M, bool lse) {
  const Totals t(shape);
  if (t.pairs == 0) return {};
  CoreForward core = {t.pairs, t.d, t.e};
  core.apart = t.bias + (lse ? t.rows : 0);
  core.compulsory = t.rows * (t.d + t.e) + t.columns * (t.d + t.e) + core.apart;
  return core_bounds(core, M);
}

BoundSet sdpa_backward_bounds(const SdpaShape& shape, const SdpaSet& set, index_t M) {
  const Totals t(shape);
  if (t.pairs == 0) return {};
  CoreProblem core;
  core.pairs = t.pairs;
  core.d = t.d;
  core.e = t.e;
  core.dQ = set.dQ;
  core.dK = set.dK;
  core.dV = set.dV;
  core.p_wanted = set.dBias;
  core.apart = t.bias;
  if (set.dBias) core.written = t.bias;
  const double outputs = (set.dQ ? t.rows * t.d : 0) + (set.dK ? t.columns * t.d : 0) +
                         (set.dV ? t.columns * t.e : 0) + core.written;
  const double inputs =
      t.rows * (t.d + t.e) + t.columns * (t.d + (core.needs_p() ? t.e : 0)) + t.bias;
  core.compulsory = inputs + (set.accumulate ? 2 : 1) * outputs;
  return core_bounds(core, M);
}

}  // namespace ioattn::theory
