#pragma once

#include "base/layer_inputs.hpp"
#include "base/matrix_view.hpp"
#include "base/observer.hpp"

// What the passes over queries and over keys read and write, by whatever loops they are made.
namespace ioattn::schedules {

// What a forward pass over rows reads and writes. P: of the products S, h and Z, which of SDPA are
// operands and the result.
template <class S, class P = S>
struct ForwardOperands {
  using T = Compute<S>;
  const LayerInputs<S>* layer = nullptr;  // fused: A1, X and, in the g-form, Y
  MatrixView<const P> queries;            // stored: S [n, d]
  T scale = 1;                            // stored: of the queries
  index_t rest_of_queries = 0;            // tile_fused: if not 0, S is the sum of both
  MatrixView<const S> keys;               // A2 [m, d]
  MatrixView<const P> values;             // h [m, dv]
  MatrixView<const S> a3;                 // g-form: [m, d], not read where it is A2
  MatrixView<P> result;                   // O [n, dv]; stored g-form: Z [n, d]
  MatrixView<S> rounded;                  // O, instead; null data: none
  T* lse = nullptr;                       // [n]; null: not wanted
  MatrixView<const S> bias;               // of the scores [n, m]; null data: none
  // Of the head that comes next, to be fetched; null data: none, or who knows.
  MatrixView<const S> next_keys;
  MatrixView<const P> next_values;

  // Whether scores of pairs wait for the softmax to be scaled.
  bool scales_late() const { return scale > 0 && bias.data == nullptr; }
};

// Whether rows of h can be read beyond their columns, up to whole panels of lanes.
enum class ValueRows : std::uint8_t { padded, bare };

// What a backward pass over rows finds in memory beside the operands of its task, and what it
// leaves there. P: of the products S, G and h, which of SDPA are operands. In 16 bits are the bias
// and, unless d_queries has data, rounded_d_queries.
template <class S, class P = S>
struct QueryPassOperands {
  using T = Compute<S>;
  MatrixView<const P> queries;      // S [n, d]
  MatrixView<const P> g;            // G [n, d]
  MatrixView<const P> values;       // h [m, dv]
  const T* delta = nullptr;         // [n]
  MatrixView<T> q, p;               // transposed: [m, n]
  MatrixView<T> d_queries;          // U [n, d]; SDPA: dQ
  MatrixView<S> rounded_d_queries;  // [n, d]
  // With S and U in memory: S is scale times what memory holds, U is written scaled.
  T scale = 1;
  bool accumulate = false;   // U is added to what memory holds
  MatrixView<const S> bias;  // of the scores [n, m]; null data: none
  MatrixView<T> d_bias;      // [n, m]; null data: not wanted
  bool add_to_d_bias = false;
};

// What a pass over the keys reads and writes. What it does not use for the gradients that are
// wanted may be null. P: of the products S, h and G, which of SDPA are operands.
template <class S, class P = S>
struct KeyPassOperands {
  using T = Compute<S>;
  MatrixView<const S> keys;     // A2 [m, d]
  MatrixView<const P> values;   // h-form: h [m, dv]
  MatrixView<const S> a3;       // g-form: [m, d]
  MatrixView<const P> queries;  // S [n, d], readable nr elements beyond each row or copied
  index_t rest_of_queries = 0;  // of a kind in parts: S is the sum of both, so far apart
  MatrixView<const S> d_o;      // h-form: [n, dv]
  MatrixView<const P> g;        // g-form: G [n, d], readable like S
  const T* lse = nullptr;       // [n]
  const T* delta = nullptr;     // [n]
  MatrixView<T> d_keys;         // dA2 [m, d]; sum: dA2 + dA3
  Operand d_keys_name = Operand::dA2;
  MatrixView<T> d_queries;  // U [n, d], with a kind that makes it; SDPA: dQ
  Operand d_queries_name = Operand::U;
  MatrixView<T> d_values;           // W = f^T dO [m, dv]; g-form: dA3 [m, d]
  bool accumulate = false;          // gradients are added to what memory holds
  bool accumulate_queries = false;  // so is U
  // Of a pass that rounds, instead of d_keys and d_values.
  MatrixView<S> rounded_d_keys, rounded_d_values;

  // Where queries may be copied: S is scale times what memory holds, of several heads that share
  // the keys, whose rows are so many elements apart.
  T scale = 1;
  index_t heads = 1;
  index_t queries_step = 0, d_o_step = 0, lse_step = 0, delta_step = 0;
  index_t d_queries_step = 0;
  MatrixView<const S> bias;  // of the scores [n, m]; null data: none
  index_t bias_step = 0;
};

// Whether sums over the queries are made in memory of the caller's, or in that of the worker, to be
// rounded to 16 bits when they are complete.
enum class KeySums : std::uint8_t { in_place, rounded };

// Whether rows of queries can be read as whole panels of lanes, or may have to be copied for that.
enum class QueryRows : std::uint8_t { padded, copied };

}  // namespace ioattn::schedules
