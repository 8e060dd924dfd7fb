#include "schedules/keys/col_stream_run.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/storage.hpp"
#include "schedules/pass_types.hpp"
#include "schedules/range.hpp"
#include "schedules/sharing/query_blocks.hpp"
#include "schedules/trace.hpp"

// The block of keys that stays in a pass over the keys, and its gradients.
namespace ioattn::schedules {

template <class S, class P>
void ColStream<S, P>::Run::stream_queries() const {
  bring_keys();
  if (of_keys) begin_sums(key_sums(), d_keys, operands.rounded_d_keys);
  if (of_values && !summed) begin_sums(value_sums(), d_values, operands.rounded_d_values);

  const Interval seeing = pass.seen_by_.of_any(interval_of(keys), pass.n_);
  const QueryBlocks blocks(seeing, pass.rho_, pass.mask_);
  for (index_t head = 0; head < operands.heads; ++head)
    for (index_t i = 0; i < blocks.count(); ++i) add_queries(head, blocks.at(i), blocks.at(i + 1));

  if (of_keys) end_sums(key_sums(), d_keys, operands.rounded_d_keys);
  if (of_values && !summed) end_sums(value_sums(), d_values, operands.rounded_d_values);
  trace.remove(key_block());
  if (reads_values()) trace.remove(value_block());
  if (pass.kind_.queries) trace.remove(rows_of_keys());
}

template <class S, class P>
void ColStream<S, P>::Run::bring_keys() const {
  const auto pack = [&](const auto& rows, index_t cols, T* panels) {
    load_panels(kernels, rows.row(keys.begin), rows.stride, 1, keys.size(), cols, panels);
  };
  trace.read(key_block());
  pack(operands.keys, pass.d_, key_panels);
  if (reads_values()) {
    trace.read(value_block());
    if (pass.g_form_) {
      pack(operands.a3, pass.v_, value_panels);
    } else {
      pack(operands.values, pass.v_, value_panels);
    }
  }
  if (!pass.kind_.queries) return;
  trace.create(rows_of_keys());
  for (Range k(pass.d_, pass.nr_); k; k.next())
    load_scaled_rows(kernels, operands.keys.at(keys.begin, k.begin), operands.keys.stride,
                     keys.size(), k.size(), scale_of_rows,
                     pass.worker_.key_rows.in(memory) + k.begin * pass.c_, pass.nr_);
}

template <class S, class P>
void ColStream<S, P>::Run::begin_sums(const Block& block, const MatrixView<T>& sums,
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

template <class S, class P>
void ColStream<S, P>::Run::end_sums(const Block& block, const MatrixView<T>& sums,
                                    const MatrixView<S>& rounded) const {
  if (!pass.rounds_) {
    trace.write_and_remove(block);
    return;
  }
  store_rows(kernels, sums.data, sums.stride, sums.rows, sums.cols, T(1), false,
             rounded.row(keys.begin), rounded.stride, trace.counted(block.operand));
  trace.write_rounded_and_remove(block);
}

#define IOATTN_INSTANTIATE(S, P) template void ColStream<S, P>::Run::stream_queries() const
IOATTN_FOR_PASS_TYPES(IOATTN_INSTANTIATE);
#undef IOATTN_INSTANTIATE

}  // namespace ioattn::schedules
