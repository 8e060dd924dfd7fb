#include "schedules/keys/col_stream.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/kernel_table.hpp"
#include "schedules/masks/masked_tile.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/key_pass.hpp"
#include "schedules/sharing/query_blocks.hpp"
#include "schedules/sharing/shared_blocks.hpp"
#include "schedules/sharing/workers.hpp"
#include "schedules/softmax/score_bias.hpp"
#include "schedules/trace.hpp"

namespace ioattn::schedules {
namespace {

// A power of 2 by which products are exact, but for numbers next to the least: none above 1, by
// which q - delta might overflow where its products with f do not.
template <class T>
bool scales_exactly(T x) {
  constexpr int least = -31;
  int exponent = 0;
  return std::abs(std::frexp(x, &exponent)) == T(0.5) && least <= exponent && exponent <= 1;
}

}  // namespace

template <class S, class P>
ColStream<S, P>::ColStream(const LayerShape& shape, const Blocks& blocks, KeyPassKind kind,
                           index_t nr, const Workers& workers, WorkspaceLayout* layout,
                           QueryRows query_rows, index_t heads, KeySums key_sums)
    : n_(shape.n),
      m_(shape.m),
      d_(shape.d),
      v_(blocks.form == Form::g ? shape.d : shape.dv),
      g_form_(blocks.form == Form::g),
      shared_(g_form_ && shape.tie != Tie::none),
      kind_(kind),
      c_(kind.queries
             ? std::min(blocks.c, shape.m)
             : shared_block(shape.m, blocks.c, nr, workers, shape.mask.transposed(), shape.n)),
      rho_(std::min(blocks.rho, shape.n)),
      nr_(nr),
      threads_(workers.count),
      mask_(shape.mask),
      seen_by_(shape.mask.transposed()),
      copies_queries_(query_rows == QueryRows::copied),
      rounds_(key_sums == KeySums::rounded),
      tile_stride_(padded_stride(c_, nr)),
      d_o_stride_(padded_stride(v_, nr)),
      s_stride_(padded_stride(d_, nr)) {
  const index_t lanes = round_up(c_, nr);
  worker_.keys = workers_.add<T>(lanes * d_);
  const bool packs_values = kind.makes_p() && !shared_;
  worker_.values = workers_.add<T>(packs_values ? lanes * v_ : 0);
  worker_.key_rows = workers_.add<T>(kind.queries ? c_ * round_up(d_, nr) : 0);
  worker_.d_o = workers_.add<T>(g_form_ ? 0 : rho_ * d_o_stride_);
  worker_.s = workers_.add<T>(copies_queries_ ? rho_ * s_stride_ : 0);
  worker_.tile = workers_.add<T>(rho_ * tile_stride_);
  worker_.lse = workers_.add<T>(rho_);
  worker_.delta = workers_.add<T>(kind.makes_p() ? rho_ : 0);
  worker_.d_keys = workers_.add<T>(rounds_ && kind.of_keys() ? c_ * s_stride_ : 0);
  worker_.d_values = workers_.add<T>(rounds_ && kind.of_values() ? c_ * d_o_stride_ : 0);
  workers_.add_to(layout, workers.count);
  const bool is_shared = kind.queries && !workers.take_whole_problems();
  gates_ = QueryGates(is_shared, workers.problems, heads, n_, rho_, layout);
}

template <class S, class P>
struct ColStream<S, P>::Run {
  const ColStream& pass;
  const kernels::KernelTable<T>& kernels;
  const Trace& trace;
  const Operands& operands;
  index_t problem, turn;
  void* workspace;
  const bool of_keys = pass.kind_.of_keys();
  const bool of_values = pass.kind_.of_values();
  const bool summed = pass.kind_.is_sum();
  // Products are scaled where they have the bits of those with scaled rows, which other passes
  // have: rows of queries then are read where they lie, if they can be. It does not depend on where
  // that is, because next to the least number bits differ.
  const bool scales_products =
      !pass.copies_queries_ || (operands.bias.data == nullptr && scales_exactly(operands.scale));
  const bool in_place = !pass.copies_queries_ || (are_queries_lanes() && scales_products);
  const T scale_of_rows = scales_products ? T(1) : operands.scale;
  const T scale_of_products = scales_products ? operands.scale : T(1);

  bool are_queries_lanes() const {
    const MatrixView<const P>& rows = operands.queries;
    if constexpr (is_half_storage<P>) {  // are copied, scaled or not
      return are_panels<T>(rows.stride, pass.d_, pass.nr_);
    } else {
      const bool so_are_other_heads = begin_lines(rows.data + operands.queries_step, rows.stride);
      return so_are_other_heads && are_lanes(rows.data, rows.stride, pass.d_, pass.nr_);
    }
  }
  Block key_block(const Range& keys) const { return rows_of(Operand::A2, keys, pass.d_); }
  Block value_block(const Range& keys) const {
    return rows_of(pass.g_form_ ? Operand::A3 : Operand::h, keys, pass.v_);
  }
  Block key_sums(const Range& keys) const { return rows_of(operands.d_keys_name, keys, pass.d_); }
  Block rows_of_keys(const Range& keys) const { return rows_of(Operand::A2_rows, keys, pass.d_); }
  Block value_sums(const Range& keys) const {
    return rows_of(pass.g_form_ ? Operand::dA3 : Operand::W, keys, pass.v_);
  }
  bool reads_values() const { return pass.kind_.makes_p() && !pass.shared_; }

  // Gradients of a block of keys, while terms are added.
  struct Sums {
    MatrixView<T> keys, values;
  };
  Sums sums_of(const Range& keys, void* memory) const {
    if (pass.rounds_) {
      return {{pass.worker_.d_keys.in(memory), keys.size(), pass.d_, pass.s_stride_},
              {pass.worker_.d_values.in(memory), keys.size(), pass.v_, pass.d_o_stride_}};
    }
    const auto rows = [&](const MatrixView<T>& all) {
      return MatrixView<T>{all.data != nullptr ? all.row(keys.begin) : nullptr, keys.size(),
                           all.cols, all.stride};
    };
    return {rows(operands.d_keys), rows(operands.d_values)};
  }

  void stream_queries(const Range& keys, void* memory) const {
    T* key_panels = pass.worker_.keys.in(memory);
    T* value_panels = pass.shared_ ? key_panels : pass.worker_.values.in(memory);
    trace.read(key_block(keys));
    load_panels(kernels, operands.keys.row(keys.begin), operands.keys.stride, 1, keys.size(),
                pass.d_, key_panels);
    if (reads_values()) {
      trace.read(value_block(keys));
      const auto load = [&](const auto& values) {
        load_panels(kernels, values.row(keys.begin), values.stride, 1, keys.size(), pass.v_,
                    value_panels);
      };
      if (pass.g_form_) {
        load(operands.a3);
      } else {
        load(operands.values);
      }
    }
    if (pass.kind_.queries) {
      trace.create(rows_of_keys(keys));
      for (Range k(pass.d_, pass.nr_); k; k.next())
        load_scaled_rows(kernels, operands.keys.at(keys.begin, k.begin), operands.keys.stride,
                         keys.size(), k.size(), scale_of_rows,
                         pass.worker_.key_rows.in(memory) + k.begin * pass.c_, pass.nr_);
    }
    const Sums sums = sums_of(keys, memory);
    if (of_keys) begin_sums(key_sums(keys), sums.keys, keys, operands.rounded_d_keys);
    if (of_values && !summed) {
      begin_sums(value_sums(keys), sums.values, keys, operands.rounded_d_values);
    }

    const Interval seeing = pass.seen_by_.of_any(interval_of(keys), pass.n_);
    const QueryBlocks blocks(seeing, pass.rho_, pass.mask_);
    for (index_t head = 0; head < operands.heads; ++head) {
      for (index_t i = 0; i < blocks.count(); ++i)
        add_queries(head, blocks.at(i), blocks.at(i + 1), keys, key_panels, value_panels, sums,
                    memory);
    }

    if (of_keys) end_sums(key_sums(keys), sums.keys, keys, operands.rounded_d_keys);
    if (of_values && !summed) {
      end_sums(value_sums(keys), sums.values, keys, operands.rounded_d_values);
    }
    trace.remove(key_block(keys));
    if (reads_values()) trace.remove(value_block(keys));
    if (pass.kind_.queries) trace.remove(rows_of_keys(keys));
  }

  // The gradients of the keys, to which terms are added.
  void begin_sums(const Block& block, const MatrixView<T>& sums, const Range& keys,
                  const MatrixView<S>& rounded) const {
    if (operands.accumulate) {
      if (pass.rounds_) {
        trace.read_rounded(block);
        load_rows(kernels, rounded.row(keys.begin), rounded.stride, sums.rows, sums.cols, sums.data,
                  sums.stride);
      } else {
        trace.read(block);
      }
      return;
    }
    trace.create(block);
    if (!pass.seen_by_.hides()) return;
    // Keys that no query sees get no term.
    for (index_t j = 0; j < sums.rows; ++j) fill_words(kernels, sums.row(j), sums.cols, T(0));
  }
  void end_sums(const Block& block, const MatrixView<T>& sums, const Range& keys,
                const MatrixView<S>& rounded) const {
    if (!pass.rounds_) {
      trace.write_and_remove(block);
      return;
    }
    store_rows(kernels, sums.data, sums.stride, sums.rows, sums.cols, T(1), false,
               rounded.row(keys.begin), rounded.stride, trace.counted(block.operand));
    trace.write_rounded_and_remove(block);
  }

  // The terms of one block of queries of a head.
  void add_queries(index_t head, const Range& rows, const Range& next_rows, const Range& keys,
                   const T* key_panels, const T* value_panels, const Sums& sums,
                   void* memory) const {
    const Block streamed[] = {rows_of(Operand::S, rows, pass.d_),
                              rows_of(pass.g_form_ ? Operand::G : Operand::dO, rows, pass.v_),
                              rows_of(Operand::LSE, rows, 1), rows_of(Operand::delta, rows, 1)};
    const int count = pass.kind_.makes_p() ? 4 : 3;
    for (int i = 0; i < count; ++i) trace.read(streamed[i]);
    T* weights = pass.worker_.tile.in(memory);
    const T* lse = shifts_of(operands.lse + head * operands.lse_step + rows.begin, rows.size(),
                             pass.worker_.lse.in(memory));
    if (operands.bias.data != nullptr) load_bias_of(head, rows, keys, weights);
    const Block tile = {Operand::p, rows.begin, keys.begin, rows.size(), keys.size()};
    trace.create(tile);

    const MatrixView<const T> s = padded_s(head, rows, memory);
    const MatrixView<const T> d_o = padded_d_o(head, rows, memory);
    score(s, key_panels, rows, keys, kernels::Epilogue::exp, lse, d_o, weights);
    const bool begun = operands.accumulate || head > 0 || rows.begin > 0;
    // f is used before p takes its place.
    const auto hide_in_tile = [&] {
      hide_weights(kernels, pass.mask_, rows, keys, weights, pass.tile_stride_);
    };
    if (of_values) {
      hide_in_tile();
      add(weights, d_o, rows, keys, summed ? sums.keys : sums.values, begun);
    }
    if (pass.kind_.makes_p()) {
      T* delta = pass.worker_.delta.in(memory);
      load_scaled_rows(kernels, operands.delta + head * operands.delta_step + rows.begin, 0, 1,
                       rows.size(), scale_of_products, delta, 0);
      score(d_o, value_panels, rows, keys, kernels::Epilogue::gradient, delta,
            rows_of_s(head, next_rows), weights);
      hide_in_tile();
    }
    if (of_keys) add(weights, s, rows, keys, sums.keys, summed || begun);
    if (pass.kind_.queries) add_to_queries(head, rows, keys, weights, memory);
    trace.remove(tile);
    for (int i = 0; i < count; ++i) trace.remove(streamed[i]);
  }

  // Rows of S and dO that whole panels can be read from; G has them.
  MatrixView<const T> padded_s(index_t head, const Range& rows, void* memory) const {
    const MatrixView<const P>& s = operands.queries;
    const P* first = s.row(rows.begin) + head * operands.queries_step;
    if constexpr (!is_half_storage<P>) {
      if (in_place) return {first, rows.size(), pass.d_, s.stride};
    }
    T* copy = pass.worker_.s.in(memory);
    load_scaled_rows(kernels, first, s.stride, rows.size(), pass.d_, scale_of_rows, copy,
                     pass.s_stride_);
    return {copy, rows.size(), pass.d_, pass.s_stride_};
  }
  // To be fetched.
  MatrixView<const T> rows_of_s(index_t head, const Range& rows) const {
    if constexpr (is_half_storage<P>) {
      return {};
    } else {
      const MatrixView<const T>& s = operands.queries;
      if (!rows) return {};
      return {s.row(rows.begin) + head * operands.queries_step, 0, pass.d_, s.stride};
    }
  }
  MatrixView<const T> padded_d_o(index_t head, const Range& rows, void* memory) const {
    if constexpr (!is_half_storage<P>) {
      if (pass.g_form_)
        return {operands.g.row(rows.begin), rows.size(), pass.v_, operands.g.stride};
    }
    const MatrixView<const S>& d_o = operands.d_o;
    const S* first = d_o.row(rows.begin) + head * operands.d_o_step;
    if constexpr (!is_half_storage<S>) {
      if (are_lanes(first, d_o.stride, pass.v_, pass.nr_))
        return {first, rows.size(), pass.v_, d_o.stride};
    }
    T* copy = pass.worker_.d_o.in(memory);
    load_rows(kernels, first, d_o.stride, rows.size(), pass.v_, copy, pass.d_o_stride_);
    return {copy, rows.size(), pass.v_, pass.d_o_stride_};
  }

  // tile[query][key] = epilogue of the products of rows of queries and packed keys. `beside` are
  // read next.
  void score(const MatrixView<const T>& queries, const T* panels, const Range& rows,
             const Range& keys, kernels::Epilogue epilogue, const T* shift,
             const MatrixView<const T>& beside, T* tile) const {
    kernels::Product<T> p;
    p.rows = rows.size();
    p.cols = keys.size();
    p.depth = queries.cols;
    p.a = {queries.data, queries.stride, 1};
    p.b = {panels, queries.cols * pass.nr_, pass.nr_};
    p.c = {tile, pass.nr_, pass.tile_stride_};
    p.epilogue = epilogue;
    p.row = shift;
    p.scale = scale_of_products;
    if constexpr (!is_half_storage<S>) {
      p.beside = beside.data;
      p.beside_row = beside.stride;
    }
    p.padded = true;
    p.accumulate = epilogue == kernels::Epilogue::exp && operands.bias.data != nullptr;
    masked_scores(kernels, p, pass.mask_, rows, keys);
  }

  // The tile becomes the bias of its queries and keys.
  void load_bias_of(index_t head, const Range& rows, const Range& keys, T* tile) const {
    MatrixView<const S> bias = operands.bias;
    bias.data += head * operands.bias_step;
    load_bias_rows(kernels, trace, bias, rows, keys, round_up(keys.size(), pass.nr_), tile,
                   pass.tile_stride_);
  }

  // U_I += p A2_J when all earlier blocks of keys have been added.
  void add_to_queries(index_t head, const Range& rows, const Range& keys, const T* weights,
                      void* memory) const {
    const Block sums = rows_of(operands.d_queries_name, rows, pass.d_);
    const bool begun = operands.accumulate_queries || pass.mask_.hides() || keys.begin > 0;
    kernels::Product<T> p;
    p.rows = rows.size();
    p.cols = pass.d_;
    p.depth = keys.size();
    p.a = {weights, pass.tile_stride_, 1};
    p.b = {pass.worker_.key_rows.in(memory), pass.c_ * pass.nr_, pass.nr_};
    p.c = {operands.d_queries.row(rows.begin) + head * operands.d_queries_step, pass.nr_,
           operands.d_queries.stride};
    p.accumulate = begun;
    parallel::OrderedGate* gate = pass.gates_.at(problem, head, rows.begin, workspace);
    if (gate != nullptr) gate->wait_for(turn);
    if (begun) {
      trace.read(sums);
    } else {
      trace.create(sums);
    }
    masked_product(kernels, p, pass.mask_, rows, keys);
    trace.write_and_remove(sums);
    if (gate != nullptr) gate->pass(turn);
  }

  // sums[key] (+)= the sum over queries of tile[query][key] terms[query], of a block of keys.
  void add(const T* tile, const MatrixView<const T>& terms, const Range& rows, const Range& keys,
           const MatrixView<T>& sums, bool accumulate) const {
    kernels::Product<T> p;
    p.rows = keys.size();
    p.cols = terms.cols;
    p.depth = terms.rows;
    p.a = {tile, 1, pass.tile_stride_};
    p.b = {terms.data, pass.nr_, terms.stride};
    p.c = {sums.data, pass.nr_, sums.stride};
    p.accumulate = accumulate || pass.seen_by_.hides();
    masked_product(kernels, p, pass.seen_by_, keys, rows);
  }
};

template <class S, class P>
void ColStream<S, P>::run(const kernels::KernelTable<T>& kernels, const Trace& trace,
                          const Operands& operands, void* workspace) const {
  trace.phase("col_stream");
  run_key_pass(*this, threads_, kernels, trace, operands, workspace);
}

template <class S, class P>
void ColStream<S, P>::prepare(const kernels::KernelTable<T>& kernels, const Trace& trace,
                              const Operands& operands, index_t problem, void* workspace) const {
  if (!kind_.queries) return;
  for (index_t head = 0; head < operands.heads; ++head) {
    gates_.open(problem, head, mask_, m_, c_, workspace);
    if (!mask_.hides() || operands.accumulate_queries) continue;
    // The first block of keys that a row of U sees need not see it all.
    MatrixView<T> sums = operands.d_queries;
    sums.data += head * operands.d_queries_step;
    write_zeros(kernels, trace, operands.d_queries_name, sums, Range(n_, n_), d_);
  }
}

template <class S, class P>
void ColStream<S, P>::begin(const kernels::KernelTable<T>& kernels, int worker,
                            void* workspace) const {
  void* memory = workers_.of(worker, workspace);
  clear_padded_rows(kernels, worker_.d_o, v_, memory);
  clear_padded_rows(kernels, worker_.s, d_, memory);
  clear_padded_rows(kernels, worker_.key_rows, d_, memory);
}

template <class S, class P>
void ColStream<S, P>::run_block(const kernels::KernelTable<T>& kernels, const Trace& trace,
                                const Operands& operands, index_t problem, index_t block,
                                int worker, void* workspace) const {
  const Run run = {*this, kernels, trace, operands, problem, block, workspace};
  run.stream_queries(Range(block * c_, m_, c_), workers_.of(worker, workspace));
}

#define IOATTN_INSTANTIATE(S, P) template class ColStream<S, P>
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
