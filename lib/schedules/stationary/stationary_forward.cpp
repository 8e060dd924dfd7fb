#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/stationary/weighted_sum_pass.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// Raw scores pass through memory, and with them LSE: maxima and sums of the rows of a tile are kept
// until the last of its keys. A weight is made when its score is read. stationary keeps a tile of
// the scores and of Z (or O), score_stored whole rows of S and then of Z (or O); the nest is one.
namespace ioattn::schedules {
namespace {

// Online softmax over the tiles of a block of rows, whose LSE is written at the end.
template <class T>
class LseHook final : public TileHook {
 public:
  LseHook(const kernels::KernelTable<T>& kernels, const Trace& trace, const Factor<T>& scores,
          T* row_sum, T* lse)
      : kernels_(kernels), trace_(trace), scores_(scores), row_sum_(row_sum), lse_(lse) {}

  void begin_rows(const Range& i) const override {
    trace_.create(block(Operand::row_max, i));
    trace_.create(block(Operand::row_sum, i));
    begin_softmax(kernels_, lse_ + i.begin, row_sum_ + i.begin, i.size());
  }
  void finish_tile(const Range& i, const Range& j) const override {
    kernels_.softmax_update({scores_.at(i.begin, j.begin), scores_.col_stride, j.size(), i.size()},
                            false, lse_ + i.begin, row_sum_ + i.begin, nullptr);
  }
  void end_rows(const Range& i) const override {
    tell_read(kernels_, row_sum_ + i.begin, i.size());
    for (index_t row = i.begin; row < i.end; ++row)
      write_lse(kernels_, lse_ + row, row_sum_ + row, lse_ + row);
    trace_.remove(block(Operand::row_max, i));
    trace_.write_and_remove(block(Operand::row_sum, i));  // LSE takes its place
  }

 private:
  static Block block(Operand operand, const Range& i) { return {operand, i.begin, 0, i.size(), 1}; }

  const kernels::KernelTable<T>& kernels_;
  const Trace& trace_;
  const Factor<T>& scores_;
  T* row_sum_;
  T* lse_;  // the maxima until the end of the rows
};

template <class T>
class StationaryForward {
 public:
  explicit StationaryForward(const ForwardTask<T>& task)
      : task_(task),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(task.kernels->tile.cols),
        threads_(task.workers()),
        h_form_(task.blocks.form == Form::h),
        query_stride_(padded_stride(n_, nr_)),
        thin_stride_(padded_stride(h_form_ ? e_ : d_, nr_)),
        s_(workspace_.add<T>(d_ * query_stride_)),
        thin_(workspace_.add<T>((h_form_ ? m_ : n_) * thin_stride_)),
        scores_(workspace_.add<T>(m_ * query_stride_)),
        row_sum_(workspace_.add<T>(n_)),
        s_pass_(pass(n_, d_, d_, task.blocks.s)),
        thin_pass_(h_form_ ? pass(m_, d_, e_, task.blocks.h) : pass(n_, d_, e_, task.blocks.x)),
        score_pass_(pass(n_, d_, m_, task.blocks.f)),
        sum_pass_(n_, m_, h_form_ ? e_ : d_, task.blocks.u, nr_, threads_, &workspace_) {}

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = workspace_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    const kernels::KernelTable<T>& kernels = *task_.kernels;
    const Trace trace(task_.observer);
    const LayerInputs<T>& in = task_.in;
    const Factor<const T> a3 = factor(Operand::A3, in.a3), y = factor(Operand::Y, in.y);
    // Queries are SIMD lanes of S and of the scores.
    const Factor<T> s = {Operand::S, s_.in(memory), 1, query_stride_, false, false};
    const Factor<T> scores = {Operand::scores, scores_.in(memory), 1, query_stride_, false, false};
    const Factor<T> thin = {h_form_ ? Operand::h : Operand::Z, thin_.in(memory), thin_stride_};
    const Factor<T> o = {Operand::O, task_.o.data, task_.o.stride};

    trace.phase("S");
    s_pass_.run(kernels, trace, factor(Operand::A1, in.a1), factor(Operand::X, in.x), s, memory);
    if (h_form_) {
      trace.phase("h");
      thin_pass_.run(kernels, trace, a3, y, thin, memory);
    }
    trace.phase("scores");
    const LseHook<T> hook(kernels, trace, scores, row_sum_.in(memory), task_.lse);
    score_pass_.run(kernels, trace, as_const(s), transposed(factor(Operand::A2, in.a2)), scores,
                    memory, false, &hook);
    trace.phase(h_form_ ? "O" : "Z");
    sum_pass_.run(kernels, trace, as_const(scores), task_.lse, h_form_ ? as_const(thin) : a3,
                  h_form_ ? o : thin, memory);
    if (!h_form_) {
      trace.phase("O");
      thin_pass_.run(kernels, trace, as_const(thin), y, o, memory);
    }
    return Status::ok();
  }

 private:
  ProductPass<T> pass(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks) {
    return ProductPass<T>(n1, k, n2, blocks, nr_, threads_, &workspace_);
  }

  const ForwardTask<T>& task_;
  index_t n_, m_, d_, e_, nr_;
  int threads_;
  bool h_form_;
  index_t query_stride_, thin_stride_;
  WorkspaceLayout workspace_;
  Slot<T> s_;     // S^T
  Slot<T> thin_;  // h or Z, row-major
  Slot<T> scores_, row_sum_;
  ProductPass<T> s_pass_, thin_pass_, score_pass_;
  WeightedSumPass<T> sum_pass_;
};

}  // namespace

template <class T>
Status stationary_forward(const ForwardTask<T>& task) {
  return StationaryForward<T>(task).run();
}

template Status stationary_forward(const ForwardTask<float>&);
template Status stationary_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
