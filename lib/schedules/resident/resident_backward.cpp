#include <algorithm>

#include "parallel/parallel.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/products/query_panels.hpp"
#include "schedules/range.hpp"
#include "schedules/schedules.hpp"
#include "schedules/sharing/ordered_rows.hpp"
#include "schedules/softmax/online_softmax.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// A2, h = A3 Y, X and dX stay; rows of A1 and dO pass by once, r at a time, and their softmax is
// taken from whole rows of scores: neither O nor LSE is read. Every word moves once.
namespace ioattn::schedules {
namespace {

template <class T>
class ResidentBackward {
 public:
  explicit ResidentBackward(const BackwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(kernels_.tile.cols),
        threads_(task.workers()),
        tied_(task.shape.tie != Tie::none),
        self_(task.shape.tie == Tie::all),
        r_(std::min(task.blocks.r, n_)),
        c_(std::min(task.blocks.c, m_)),
        layout_{r_, nr_},
        stride_(padded_stride(d_, nr_)),
        h_stride_(padded_stride(e_, nr_)),
        tile_stride_(padded_stride(layout_.sub_lanes(), nr_)),
        dx_(d_, kernels_.tile.rows) {
    const index_t lanes = layout_.sub_lanes();
    y_ = workspace_.add<T>(round_up(e_, nr_) * d_);
    h_ = workspace_.add<T>(m_ * h_stride_ + nr_);
    a2_ = workspace_.add<T>(m_ * stride_ + nr_);
    worker_.a1 = workers_.add<T>(lanes * d_);
    worker_.s = workers_.add<T>(lanes * d_);
    worker_.d_o = workers_.add<T>(lanes * e_);
    worker_.p = workers_.add<T>(m_ * tile_stride_);
    worker_.q = workers_.add<T>(m_ * tile_stride_);
    worker_.u = workers_.add<T>(r_ * stride_ + nr_);
    worker_.row_max = workers_.add<T>(lanes);
    worker_.row_sum = workers_.add<T>(lanes);
    worker_.delta = workers_.add<T>(lanes);
    workers_.add_to(&workspace_, threads_);
  }

  Status run() {
    const Status allocated = workspace_.allocate(task_.memory, &buffer_);
    if (!allocated.is_ok()) return allocated;
    make_values();
    add_rows();
    return Status::ok();
  }

 private:
  // h = A3 Y, and A2 with its rows padded.
  void make_values() const {
    const Range keys(m_, m_), inner(d_, d_);
    trace_.phase("h");
    if (tied_) trace_.read(rows_of(Operand::A2, keys, d_));
    trace_.read(rows_of(Operand::Y, inner, e_));
    kernels_.pack(task_.in.y.data, 1, task_.in.y.stride, e_, d_, y_.in(buffer_.data()));
    trace_.create(rows_of(Operand::h, keys, e_));
    fill_words(kernels_, a2_.in(buffer_.data()), a2_.count, T(0));
    parallel::for_each(threads_, ceil_div(m_, c_),
                       [&](index_t block, int) { project_values(Range(block * c_, m_, c_)); });
    trace_.remove(rows_of(Operand::Y, inner, e_));
  }

  void project_values(const Range& keys) const {
    void* memory = buffer_.data();
    T* a2 = a2_.in(memory);
    for (index_t j = keys.begin; j < keys.end; ++j)
      copy_words(kernels_, task_.in.a2.row(j), d_, a2 + j * stride_);
    if (!tied_) trace_.read(rows_of(Operand::A3, keys, d_));
    kernels::Product<T> p;
    p.rows = keys.size();
    p.cols = e_;
    p.depth = d_;
    p.a = {tied_ ? a2 + keys.begin * stride_ : task_.in.a3.row(keys.begin),
           tied_ ? stride_ : task_.in.a3.stride, 1};
    p.b = {y_.in(memory), d_ * nr_, nr_};
    p.c = {h_.in(memory) + keys.begin * h_stride_, nr_, h_stride_};
    kernels_.product(p);
    if (!tied_) trace_.remove(rows_of(Operand::A3, keys, d_));
  }

  // dX += A1_I^T U_I for all row blocks, in their order.
  void add_rows() {
    const Range keys(m_, m_), inner(d_, d_);
    trace_.phase("resident");
    if (!tied_) trace_.read(rows_of(Operand::A2, keys, d_));
    trace_.read(rows_of(Operand::X, inner, d_));
    trace_.create(rows_of(Operand::dX, inner, d_));
    parallel::for_each(threads_, ceil_div(n_, r_), [&](index_t block, int worker) {
      void* memory = workers_.of(worker, buffer_.data());
      const Range rows(block * r_, n_, r_);
      make_weights(rows, memory);
      make_gradients(rows, memory);
      make_u(rows, memory);
      dx_.take_turn(block, [&](const Range& k) { add_to_dx(rows, k, memory); });
      trace_.remove(rows_of(Operand::U, rows, d_));
      if (!self_) trace_.remove(rows_of(Operand::A1, rows, d_));
    });
    trace_.write_and_remove(rows_of(Operand::dX, inner, d_));
    trace_.remove(rows_of(Operand::X, inner, d_));
    trace_.remove(rows_of(Operand::A2, keys, d_));
    trace_.remove(rows_of(Operand::h, keys, e_));
  }

  kernels::ScoreTile<T> tile_of(const Slot<T>& slot, const Range& rows, void* memory) const {
    return {slot.in(memory), tile_stride_, m_, rows.size()};
  }

  // tile[key][query] = the product of all rows of `keys` with packed query rows.
  void multiply_keys(const MatrixView<const T>& keys, const T* panels, const Range& rows,
                     const kernels::ScoreTile<T>& tile) const {
    kernels_.product(score_product(layout_, keys, panels, from_0(rows), tile));
  }

  // p = exp(S_I A2^T - max), and the sums that would make it the softmax.
  void make_weights(const Range& rows, void* memory) const {
    const Block tile = {Operand::p, rows.begin, 0, rows.size(), m_};
    T* a1 = worker_.a1.in(memory);
    T* s = worker_.s.in(memory);
    if (!self_) trace_.read(rows_of(Operand::A1, rows, d_));
    trace_.create(rows_of(Operand::A1_panels, rows, d_));
    pack_rows(kernels_, layout_, task_.in.a1, rows, a1);
    trace_.create(rows_of(Operand::S, rows, d_));
    multiply_rows(kernels_, layout_, rows.size(), a1, d_, factor(Operand::X, task_.in.x),
                  Range(d_, d_), d_, s);
    trace_.remove(rows_of(Operand::A1_panels, rows, d_));
    trace_.create(tile);
    const kernels::ScoreTile<T> scores = tile_of(worker_.p, rows, memory);
    multiply_keys({a2_.in(buffer_.data()), m_, d_, stride_}, s, rows, scores);
    trace_.remove(rows_of(Operand::S, rows, d_));

    trace_.create(rows_of(Operand::row_max, rows, 1));
    trace_.create(rows_of(Operand::row_sum, rows, 1));
    T* row_max = worker_.row_max.in(memory);
    T* row_sum = worker_.row_sum.in(memory);
    begin_softmax(kernels_, row_max, row_sum, rows.size());
    kernels_.softmax_update(scores, true, row_max, row_sum, nullptr);
    trace_.remove(rows_of(Operand::row_max, rows, 1));
  }

  // p o (q - delta) with q = dO h^T and delta = rowsum(p o q) / sum
  void make_gradients(const Range& rows, void* memory) const {
    const Block q_block = {Operand::q, rows.begin, 0, rows.size(), m_};
    T* d_o = worker_.d_o.in(memory);
    trace_.read(rows_of(Operand::dO, rows, e_));
    pack_rows(kernels_, layout_, task_.d_o, rows, d_o);
    trace_.create(q_block);
    const kernels::ScoreTile<T> q = tile_of(worker_.q, rows, memory);
    multiply_keys({h_.in(buffer_.data()), m_, e_, h_stride_}, d_o, rows, q);
    trace_.remove(rows_of(Operand::dO, rows, e_));

    trace_.create(rows_of(Operand::delta, rows, 1));
    const kernels::ScoreTile<T> p = tile_of(worker_.p, rows, memory);
    T* delta = worker_.delta.in(memory);
    const T* row_sum = worker_.row_sum.in(memory);
    fill_words(kernels_, delta, rows.size(), T(0));
    kernels_.dot_tile(p, q, delta);
    tell_read(kernels_, row_sum, rows.size());
    tell_written(kernels_, delta, rows.size());
    for (index_t i = 0; i < rows.size(); ++i) delta[i] /= row_sum[i];
    kernels_.gradient_tile(p, q, delta, p);
    trace_.remove(q_block);
    trace_.remove(rows_of(Operand::delta, rows, 1));
  }

  // U_I = p A2, its rows divided by the sums.
  void make_u(const Range& rows, void* memory) const {
    T* u = worker_.u.in(memory);
    trace_.create(rows_of(Operand::U, rows, d_));
    kernels::Product<T> p;
    p.rows = rows.size();
    p.cols = d_;
    p.depth = m_;
    p.a = {worker_.p.in(memory), 1, tile_stride_};
    p.b = {a2_.in(buffer_.data()), nr_, stride_};
    p.c = {u, nr_, stride_};
    p.padded = true;
    kernels_.product(p);
    for (index_t i = 0; i < rows.size(); ++i) {
      const T inverse = T(1) / worker_.row_sum.in(memory)[i];
      tell_written(kernels_, u + i * stride_, d_);
      for (index_t k = 0; k < d_; ++k) u[i * stride_ + k] *= inverse;
    }
    trace_.remove({Operand::p, rows.begin, 0, rows.size(), m_});
    trace_.remove(rows_of(Operand::row_sum, rows, 1));
  }

  // Rows k of dX += A1_I^T U_I
  void add_to_dx(const Range& rows, const Range& k, void* memory) const {
    kernels::Product<T> p;
    p.rows = k.size();
    p.cols = d_;
    p.depth = rows.size();
    p.a = {task_.in.a1.at(rows.begin, k.begin), 1, task_.in.a1.stride};
    p.b = {worker_.u.in(memory), nr_, stride_};
    p.c = {task_.dx.row(k.begin), nr_, task_.dx.stride};
    p.accumulate = rows.begin > 0;
    kernels_.product(p);
  }

  const BackwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  int threads_;
  bool tied_;  // A2 serves as A3
  bool self_;  // and as A1
  index_t r_, c_;
  QueryLayout layout_;  // a row block is one sub-block
  index_t stride_, h_stride_, tile_stride_;
  OrderedRows dx_;

  WorkspaceMemory buffer_;
  WorkspaceLayout workspace_;
  Slot<T> y_;   // panels [dv][d]
  Slot<T> h_;   // [m][dv]
  Slot<T> a2_;  // [m][d]
  WorkerMemory workers_;
  struct {
    Slot<T> a1, s;  // panels [lanes][d]
    Slot<T> d_o;    // panels [lanes][dv]
    Slot<T> p, q;   // [m][lanes]; p: scores first, then weights
    Slot<T> u;      // [r][d]
    Slot<T> row_max, row_sum, delta;
  } worker_;
};

}  // namespace

template <class T>
Status resident_backward(const BackwardTask<T>& task) {
  return ResidentBackward<T>(task).run();
}

template Status resident_backward(const BackwardTask<float>&);
template Status resident_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
