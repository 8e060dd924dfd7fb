#include "schedules/forward_pass.hpp"
#include "schedules/product_pass.hpp"
#include "schedules/schedules.hpp"

// One pass over rows. fused: X and Y stream once more per row block. stored: S and Z pass through
// memory, O = Z Y is a product of its own.
namespace ioattn::schedules {
namespace {

template <class T>
class RowStreamForward {
 public:
  explicit RowStreamForward(const ForwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        threads_(task.observer != nullptr ? 1 : task.threads),
        h_form_(task.blocks.form == Form::h),
        stored_(task.blocks.products == Products::stored),
        values_(task.shape, task.blocks, kernels_.tile.cols, threads_, &workspace_),
        pass_(task.shape, task.blocks, kernels_, threads_, &workspace_) {
    const auto [n, m, d, e, tie, mask] = task.shape;
    const index_t nr = kernels_.tile.cols;
    d_stride_ = padded_stride(d, nr);
    if (stored_) {
      s_ = workspace_.add<T>(n * d_stride_);
      s_product_ = ProductPass<T>(n, d, d, task.blocks.s, nr, threads_, &workspace_);
    }
    if (stored_ && !h_form_) {
      z_ = workspace_.add<T>(n * d_stride_);
      o_product_ = ProductPass<T>(n, d, e, task.blocks.x, nr, threads_, &workspace_);
    }
  }

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = workspace_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    row_stream::ForwardOperands<T> operands;
    operands.layer = &task_.in;
    operands.keys = task_.in.a2;
    operands.values = task_.in.a3;
    operands.result = task_.o;
    operands.lse = task_.lse;
    if (stored_) {
      trace_.phase("S");
      s_product_.run(kernels_, trace_, factor(Operand::A1, task_.in.a1),
                     factor(Operand::X, task_.in.x),
                     {Operand::S, s_.in(memory), d_stride_, 1, false, false}, memory);
      operands.queries = rows_of_d(s_, memory);
    }
    if (h_form_) {
      values_.run(kernels_, trace_, task_.in, memory);
      operands.values = values_.h(memory);
    }
    if (stored_ && !h_form_) operands.result = rows_of_d(z_, memory);

    trace_.phase("row_stream");
    pass_.run(trace_, operands, memory);
    if (stored_ && !h_form_) {
      trace_.phase("O");
      o_product_.run(kernels_, trace_, {Operand::Z, z_.in(memory), d_stride_, 1, false, false},
                     factor(Operand::Y, task_.in.y),
                     {Operand::O, task_.o.data, task_.o.stride, 1, false, false}, memory);
    }
    return Status::ok();
  }

 private:
  MatrixView<T> rows_of_d(const Slot<T>& slot, void* workspace) const {
    return {slot.in(workspace), task_.shape.n, task_.shape.d, d_stride_};
  }

  const ForwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  int threads_;
  bool h_form_, stored_;
  index_t d_stride_ = 0;

  WorkspaceLayout workspace_;
  Slot<T> s_, z_;  // [n][d], stored
  ProductPass<T> s_product_, o_product_;
  row_stream::ValueProjection<T> values_;
  row_stream::ForwardPass<T> pass_;
};

}  // namespace

template <class T>
Status row_stream_forward(const ForwardTask<T>& task) {
  return RowStreamForward<T>(task).run();
}

template Status row_stream_forward(const ForwardTask<float>&);
template Status row_stream_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
