#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/batch.hpp"
#include "schedules/products/product_pass.hpp"
#include "schedules/rows/forward_pass.hpp"
#include "schedules/schedules.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// One pass over rows. fused: X and Y stream once more per row block. stored: S and Z pass through
// memory, O = Z Y is a product of its own, which of operands in 16 bits is made in f32 and rounded
// at the end.
namespace ioattn::schedules {
namespace {

template <class S>
class RowStreamForward {
 public:
  using T = Compute<S>;

  explicit RowStreamForward(const ForwardTask<S>& task)
      : task_(task),
        trace_(Trace::of_layer(task.observer, is_half_storage<S>, task.overflows)),
        kernels_(*task.kernels),
        threads_(task.workers()),
        h_form_(task.blocks.form == Form::h),
        stored_(task.blocks.products == Products::stored),
        values_(task.shape, task.blocks, kernels_.tile.cols, threads_, &workspace_),
        pass_(task.shape, task.blocks, kernels_, threads_, &workspace_) {
    const auto [n, m, d, e, tie, mask] = task.shape;
    const index_t nr = kernels_.tile.cols;
    d_stride_ = padded_stride(d, nr);
    if (stored_) {
      s_ = workspace_.add<T>(n * d_stride_);
      s_product_ = ProductPass<T>(n, d, d, task.blocks.s, nr, threads_, &workspace_, factors_of<S>);
    }
    if (stored_ && !h_form_) {
      z_ = workspace_.add<T>(n * d_stride_);
      o_product_ = ProductPass<T>(n, d, e, task.blocks.x, nr, threads_, &workspace_, factors_of<S>);
      if (is_half_storage<S>) o_ = workspace_.add<T>(n * e);
    }
  }

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = workspace_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    void* memory = buffer.data();
    ForwardOperands<S, T> operands;
    operands.layer = &task_.in;
    if constexpr (is_half_storage<S>) {
      operands.rounded = task_.o;
    } else {
      operands.result = task_.o;
    }
    operands.keys = task_.in.a2;
    operands.a3 = task_.in.a3;
    operands.lse = task_.lse;
    if (stored_) {
      trace_.phase("S");
      with_x(task_.in, [&](const auto& x) {
        s_product_.run(kernels_, trace_, factor(Operand::A1, task_.in.a1), x,
                       {Operand::S, s_.in(memory), d_stride_}, memory);
      });
      operands.queries = rows_of_d(s_, memory);
    }
    if (h_form_) {
      values_.run(kernels_, trace_, task_.in, memory);
      operands.values = values_.h(memory);
    }
    if (stored_ && !h_form_) {
      operands.result = rows_of_d(z_, memory);
      operands.rounded = {};
    }

    trace_.phase("row_stream");
    pass_.run(trace_, operands, memory);
    if (stored_ && !h_form_) make_o(memory);
    return Status::ok();
  }

 private:
  void make_o(void* memory) const {
    const index_t n = task_.shape.n, e = task_.shape.dv;
    MatrixView<T> o;
    if constexpr (is_half_storage<S>) {
      o = {o_.in(memory), n, e, e};
    } else {
      o = task_.o;
    }
    trace_.phase("O");
    o_product_.run(kernels_, trace_, Factor<const T>{Operand::Z, z_.in(memory), d_stride_},
                   factor(Operand::Y, task_.in.y), {Operand::O, o.data, o.stride}, memory);
    if constexpr (is_half_storage<S>)
      round_result<S>(kernels_, trace_, Operand::O, o, {task_.o.data, n, e, task_.o.stride});
  }
  MatrixView<T> rows_of_d(const Slot<T>& slot, void* workspace) const {
    return {slot.in(workspace), task_.shape.n, task_.shape.d, d_stride_};
  }

  const ForwardTask<S>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  int threads_;
  bool h_form_, stored_;
  index_t d_stride_ = 0;

  WorkspaceLayout workspace_;
  Slot<T> s_, z_;  // [n][d], stored
  Slot<T> o_;      // [n][dv], to be rounded
  ProductPass<T> s_product_, o_product_;
  ValueProjection<S> values_;
  ForwardPass<S, T> pass_;
};

}  // namespace

template <class S>
Status row_stream_forward(const ForwardTask<S>& task) {
  return RowStreamForward<S>(task).run();
}

template Status row_stream_forward(const ForwardTask<float>&);
template Status row_stream_forward(const ForwardTask<double>&);
template Status row_stream_forward(const ForwardTask<bf16>&);
template Status row_stream_forward(const ForwardTask<f16>&);

}  // namespace ioattn::schedules
