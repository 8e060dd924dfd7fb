#include <algorithm>

#include "parallel/parallel.hpp"
#include "schedules/memory/memory_moves.hpp"
#include "schedules/memory/row_layout.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/range.hpp"
#include "schedules/rows/query_rows.hpp"
#include "schedules/schedules.hpp"
#include "schedules/sharing/ordered_rows.hpp"
#include "schedules/task.hpp"
#include "schedules/trace.hpp"

// X and dX stay for the whole run, rows of A1 and G (or dO) per row block. Per key block,
// K'_J = A2_J X^T is recomputed and T_J = A1_I^T p goes into dX += T_J A2_J at once, so that S and
// U, which row_stream keeps, do not exist.
namespace ioattn::schedules {
namespace {

template <class T>
class WeightResidentBackward {
 public:
  explicit WeightResidentBackward(const BackwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(kernels_.tile.cols),
        threads_(task.workers()),
        h_form_(task.blocks.form == Form::h),
        tied_(!h_form_ && task.shape.tie != Tie::none),
        r_(std::min(task.blocks.r, n_)),
        c_(std::min(task.blocks.c, m_)),
        layout_{std::min(task.blocks.rho, r_), nr_},
        stride_(padded_stride(d_, nr_)),
        tile_stride_(padded_stride(layout_.sub_lanes(), nr_)),
        dx_(d_, kernels_.tile.rows),
        values_(task.shape, task.blocks, nr_, threads_, &workspace_) {
    const index_t lanes = layout_.lanes(r_);
    x_ = workspace_.add<T>(round_up(d_, nr_) * d_);
    a1_ = workspace_.add<T>(r_ * stride_ + nr_);
    d_o_ = workspace_.add<T>(lanes * e_);
    g_ = workspace_.add<T>(h_form_ ? 0 : lanes * d_);
    lse_ = workspace_.add<T>(lanes);
    delta_ = workspace_.add<T>(lanes);
    worker_.key = workers_.add<T>(c_ * stride_ + nr_);
    worker_.projected = workers_.add<T>(c_ * stride_ + nr_);
    worker_.t = workers_.add<T>(c_ * stride_ + nr_);
    worker_.panels = workers_.add<T>(layout_.sub_lanes() * d_);
    worker_.tile = workers_.add<T>(c_ * tile_stride_);
    workers_.add_to(&workspace_, threads_);
  }

  Status run() {
    const Status allocated = workspace_.allocate(task_.memory, &buffer_);
    if (!allocated.is_ok()) return allocated;
    if (h_form_) values_.run(kernels_, trace_, task_.in, buffer_.data());

    trace_.phase("weight_resident");
    const Block x = {Operand::X, 0, 0, d_, d_}, dx = {Operand::dX, 0, 0, d_, d_};
    trace_.read(x);
    kernels_.pack(task_.in.x.data, task_.in.x.stride, 1, d_, d_, x_.in(buffer_.data()));
    trace_.create(dx);
    // The padding of the rows is read as lanes.
    fill_words(kernels_, a1_.in(buffer_.data()), a1_.count, T(0));
    for (int worker = 0; worker < threads_; ++worker)
      fill_words(kernels_, worker_.key.in(local(worker)), worker_.key.count, T(0));
    for (Range rows(n_, r_); rows; rows.next()) {
      load(rows);
      stream_keys(rows);
      trace_.remove(rows_of(Operand::A1, rows, d_));
      trace_.remove(h_form_ ? rows_of(Operand::dO, rows, e_) : rows_of(Operand::G, rows, d_));
      trace_.remove(rows_of(Operand::delta, rows, 1));
      trace_.remove(rows_of(Operand::LSE, rows, 1));
    }
    trace_.write_and_remove(dx);
    trace_.remove(x);
    return Status::ok();
  }

 private:
  void* local(int worker) const { return workers_.of(worker, buffer_.data()); }

  // A1_I, G_I (or dO_I), delta_I and LSE_I become resident.
  void load(const Range& rows) const {
    const index_t part_rows = threads_ > 1 ? layout_.rho : rows.size();
    parallel::for_each(threads_, ceil_div(rows.size(), part_rows), [&](index_t part, int) {
      load_part(Range(rows.begin + part * part_rows, rows.end, part_rows), part * part_rows);
    });
  }

  void load_part(const Range& rows, index_t first) const {
    void* memory = buffer_.data();
    const index_t lane = layout_.lane_offset(first);
    T* d_o = d_o_.in(memory) + lane * e_;
    trace_.read(rows_of(Operand::dO, rows, e_));
    pack_rows(kernels_, layout_, task_.d_o, rows, d_o);
    make_delta(trace_, layout_, task_, rows, delta_.in(memory) + lane);
    if (!h_form_) {
      project_gradients(trace_, layout_, task_, rows, d_o, g_.in(memory) + lane * d_);
      trace_.remove(rows_of(Operand::dO, rows, e_));
    }
    trace_.read(rows_of(Operand::LSE, rows, 1));
    load_lanes(kernels_, layout_, task_.lse, rows, lse_.in(memory) + lane);
    trace_.read(rows_of(Operand::A1, rows, d_));
    for (index_t i = 0; i < rows.size(); ++i)
      copy_words(kernels_, task_.in.a1.row(rows.begin + i), d_,
                 a1_.in(memory) + (first + i) * stride_);
  }

  // Threads take key blocks; their terms enter dX in the order of the blocks.
  void stream_keys(const Range& rows) {
    const index_t count = ceil_div(m_, c_);
    const index_t earlier = rows.begin / r_ * count;
    parallel::for_each(threads_, count, [&](index_t block, int worker) {
      add_keys(rows, Range(block * c_, m_, c_), earlier + block, local(worker));
    });
  }

  void add_keys(const Range& rows, const Range& keys, index_t turn, void* memory) {
    T* key = worker_.key.in(memory);
    trace_.read(rows_of(Operand::A2, keys, d_));
    for (index_t j = 0; j < keys.size(); ++j)
      copy_words(kernels_, task_.in.a2.row(keys.begin + j), d_, key + j * stride_);
    trace_.create(rows_of(Operand::K, keys, d_));
    project_keys(keys, memory);
    for (Range sub(rows.size(), layout_.rho); sub; sub.next()) add_queries(rows, sub, keys, memory);

    const T* t = worker_.t.in(memory);
    dx_.take_turn(turn, [&](const Range& k) {
      kernels::Product<T> p;
      p.rows = k.size();
      p.cols = d_;
      p.depth = keys.size();
      p.a = {t + k.begin, 1, stride_};
      p.b = {key, nr_, stride_};
      p.c = {task_.dx.row(k.begin), nr_, task_.dx.stride};
      p.accumulate = turn > 0;
      kernels_.product(p);
    });
    trace_.remove(part_of(Operand::T, Range(d_, d_), keys));
    trace_.remove(rows_of(Operand::A2, keys, d_));
  }

  // K'_J = A2_J X^T
  void project_keys(const Range& keys, void* memory) const {
    kernels::Product<T> p;
    p.rows = keys.size();
    p.cols = d_;
    p.depth = d_;
    p.a = {worker_.key.in(memory), stride_, 1};
    p.b = {x_.in(buffer_.data()), d_ * nr_, nr_};
    p.c = {worker_.projected.in(memory), nr_, stride_};
    p.padded = true;
    kernels_.product(p);
  }

  // T_J += A1^T p over a sub-block of rho queries, kept transposed: [keys][d]. K'_J and the values
  // leave with the last sub-block, T_J comes with the first.
  void add_queries(const Range& rows, const Range& sub, const Range& keys, void* memory) const {
    const bool first = sub.begin == 0, last = sub.end == rows.size();
    const Block tile = {Operand::p, rows.begin + sub.begin, keys.begin, sub.size(), keys.size()};
    const Block panels = {Operand::A1_panels, rows.begin + sub.begin, 0, sub.size(), d_};
    const Block value = rows_of(h_form_ ? Operand::h : Operand::A3, keys, h_form_ ? e_ : d_);
    trace_.create(tile);
    trace_.create(panels);
    make_weights(sub, keys, memory);
    trace_.remove(panels);
    if (last) trace_.remove(rows_of(Operand::K, keys, d_));
    if (first && !tied_) trace_.read(value);
    make_gradients(sub, keys, memory);
    if (last && !tied_) trace_.remove(value);
    if (first) trace_.create(part_of(Operand::T, Range(d_, d_), keys));

    kernels::Product<T> p;
    p.rows = keys.size();
    p.cols = d_;
    p.depth = sub.size();
    p.a = {worker_.tile.in(memory), tile_stride_, 1};
    p.b = {a1_.in(buffer_.data()) + sub.begin * stride_, nr_, stride_};
    p.c = {worker_.t.in(memory), nr_, stride_};
    p.accumulate = !first;
    p.padded = true;
    kernels_.product(p);
    trace_.remove(tile);
  }

  kernels::ScoreTile<T> tile_of(const Range& sub, const Range& keys, void* memory) const {
    return {worker_.tile.in(memory), tile_stride_, keys.size(), sub.size()};
  }

  // f = exp(K'_J A1^T - LSE)
  void make_weights(const Range& sub, const Range& keys, void* memory) const {
    T* panels = worker_.panels.in(memory);
    kernels_.pack(a1_.in(buffer_.data()) + sub.begin * stride_, stride_, 1, sub.size(), d_, panels);
    const MatrixView<const T> projected = {worker_.projected.in(memory), keys.size(), d_, stride_};
    kernels::Product<T> p =
        score_product(layout_, projected, panels, from_0(sub), tile_of(sub, keys, memory));
    p.epilogue = kernels::Epilogue::exp;
    p.lane = lse_.in(buffer_.data()) + layout_.lane_offset(sub.begin);
    kernels_.product(p);
  }

  // p = f o (q - delta), q = A3_J G^T or h_J dO^T
  void make_gradients(const Range& sub, const Range& keys, void* memory) const {
    const MatrixView<const T> all = h_form_ ? values_.h(buffer_.data()) : task_.in.a3;
    const MatrixView<const T> value =
        tied_ ? MatrixView<const T>{worker_.key.in(memory), keys.size(), d_, stride_}
              : MatrixView<const T>{all.row(keys.begin), keys.size(), all.cols, all.stride};
    kernels::Product<T> p = score_product(layout_, value, (h_form_ ? d_o_ : g_).in(buffer_.data()),
                                          sub, tile_of(sub, keys, memory));
    p.epilogue = kernels::Epilogue::gradient;
    p.lane = delta_.in(buffer_.data()) + layout_.lane_offset(sub.begin);
    kernels_.product(p);
  }

  const BackwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  int threads_;
  bool h_form_, tied_;
  index_t r_, c_;
  QueryLayout layout_;
  index_t stride_, tile_stride_;
  OrderedRows dx_;

  WorkspaceMemory buffer_;
  WorkspaceLayout workspace_;  // shared: h, X and the rows, then one WorkerMemory
  ValueProjection<T> values_;
  Slot<T> x_;        // X^T, panels [d][d]
  Slot<T> a1_;       // [r][d]
  Slot<T> d_o_, g_;  // panels [lanes][dv], [lanes][d]
  Slot<T> lse_, delta_;
  WorkerMemory workers_;
  struct {
    Slot<T> key, projected, t;  // [c][d]: A2_J, K'_J, T_J transposed
    Slot<T> panels;             // [rho lanes][d] of A1
    Slot<T> tile;               // [c][rho], f and then p
  } worker_;
};

}  // namespace

template <class T>
Status weight_resident_backward(const BackwardTask<T>& task) {
  return WeightResidentBackward<T>(task).run();
}

template Status weight_resident_backward(const BackwardTask<float>&);
template Status weight_resident_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
