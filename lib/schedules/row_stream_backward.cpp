#include <algorithm>

#include "schedules/query_rows.hpp"
#include "schedules/schedules.hpp"

// Rows of S, G (or dO) and U = p A2 stay; keys and values stream once per row block, X, Y, O and dX
// once more. Nothing of size n x m or n x d is stored.
namespace ioattn::schedules {
namespace {

using row_stream::QueryLayout;

template <class T>
class RowStreamBackward {
 public:
  explicit RowStreamBackward(const BackwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        nr_(kernels_.tile.cols),
        threads_(task.observer != nullptr ? 1 : task.threads),
        h_form_(task.blocks.form == Form::h),
        tied_(!h_form_ && task.shape.tie != Tie::none),
        r_(row_stream::rows_per_block(task.shape, task.blocks, threads_)),
        c_(std::min(task.blocks.c, m_)),
        layout_{std::min(task.blocks.rho, r_), nr_},
        d_stride_(row_stream::padded_stride<T>(d_, nr_)),
        tile_stride_(layout_.sub_lanes() + nr_),
        values_(task.shape, task.blocks, nr_, threads_, &workspace_) {
    const index_t lanes = layout_.lanes(r_);
    worker_.a1 = workers_.add<T>(lanes * d_);
    worker_.s = workers_.add<T>(lanes * d_);
    worker_.d_o = workers_.add<T>(lanes * e_);
    worker_.g = workers_.add<T>(h_form_ ? 0 : lanes * d_);
    worker_.u = workers_.add<T>(r_ * d_stride_ + nr_);
    worker_.key = workers_.add<T>(c_ * d_stride_);
    worker_.tile = workers_.add<T>(c_ * tile_stride_);
    worker_.lse = workers_.add<T>(lanes);
    worker_.delta = workers_.add<T>(lanes);
    const index_t bytes = workers_.bytes();
    all_workers_ = workspace_.add<std::byte>(bytes * threads_);
  }

  Status run() {
    AlignedBuffer buffer;
    const Status allocated = workspace_.allocate(&buffer);
    if (!allocated.is_ok()) return allocated;
    if (h_form_) values_.run(kernels_, trace_, task_.in, buffer.data());

    trace_.phase("row_stream");
    const MatrixView<const T> value =
        h_form_ ? values_.h(buffer.data()) : MatrixView<const T>(task_.in.a3);
    parallel::Dispenser blocks;
    parallel::OrderedGate gate;
    const index_t count = ceil_div(n_, r_);
    auto body = [&](int worker) {
      void* memory = all_workers_.in(buffer.data()) + worker * workers_.bytes();
      T* key = worker_.key.in(memory);
      std::fill_n(key, worker_.key.count, T(0));  // the padding of the rows is read as lanes
      for (index_t block = blocks.take(); block < count; block = blocks.take()) {
        Range rows(block * r_, n_, r_);
        project(rows, memory);
        for (Range keys(m_, c_); keys; keys.next()) stream_keys(rows, keys, value, memory);
        trace_.remove(rows_of(Operand::S, rows, d_));
        row_stream::release_gradients(trace_, task_, rows);
        gate.wait_for(block);
        add_to_dx(rows, memory);
        gate.pass(block);
      }
    };
    parallel::run(threads_, body);
    return Status::ok();
  }

 private:
  Block rows_of(Operand operand, const Range& rows, index_t cols) const {
    return {operand, rows.begin, 0, rows.size(), cols};
  }

  // S_I, delta_I, G_I (or dO_I) and LSE_I become resident; U_I is created.
  void project(const Range& rows, void* memory) const {
    row_stream::project_queries(kernels_, trace_, layout_, task_.in, rows, task_.blocks.w,
                                worker_.a1.in(memory), worker_.s.in(memory));

    row_stream::read_gradients(trace_, layout_, task_, rows,
                               {worker_.d_o.in(memory), h_form_ ? nullptr : worker_.g.in(memory),
                                worker_.delta.in(memory), worker_.lse.in(memory)});
    trace_.create(rows_of(Operand::U, rows, d_));
  }

  // U_I += p A2_J with p = f o (q - delta), a score tile of rho queries at a time.
  void stream_keys(const Range& rows, const Range& keys, const MatrixView<const T>& value,
                   void* memory) const {
    T* key = worker_.key.in(memory);
    const index_t width = h_form_ ? e_ : d_;
    const Operand value_name = h_form_ ? Operand::h : Operand::A3;
    trace_.read(rows_of(Operand::A2, keys, d_));
    for (index_t j = 0; j < keys.size(); ++j)
      std::copy_n(task_.in.a2.row(keys.begin + j), d_, key + j * d_stride_);
    if (!tied_) trace_.read(rows_of(value_name, keys, width));

    for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
      const Block tile = {Operand::p, rows.begin + sub.begin, keys.begin, sub.size(), keys.size()};
      trace_.create(tile);
      T* weights = worker_.tile.in(memory);
      const index_t lane = layout_.lane_offset(sub.begin);
      kernels::Product<T> p;
      p.rows = keys.size();
      p.cols = sub.size();
      p.padded = true;
      p.c = weights;
      p.c_panel = nr_;
      p.c_row = tile_stride_;
      p.b_row = nr_;

      p.depth = d_;
      p.a = key;
      p.a_row = d_stride_;
      p.a_depth = 1;
      p.b = worker_.s.in(memory) + layout_.panel_offset(sub.begin, d_);
      p.b_panel = d_ * nr_;
      p.epilogue = kernels::Epilogue::exp;
      p.lane = worker_.lse.in(memory) + lane;
      kernels_.product(p);

      p.depth = width;
      p.a = tied_ ? key : value.row(keys.begin);
      p.a_row = tied_ ? d_stride_ : value.stride;
      p.b = (h_form_ ? worker_.d_o : worker_.g).in(memory) + layout_.panel_offset(sub.begin, width);
      p.b_panel = width * nr_;
      p.epilogue = kernels::Epilogue::gradient;
      p.lane = worker_.delta.in(memory) + lane;
      kernels_.product(p);

      kernels::Product<T> update;
      update.rows = sub.size();
      update.cols = d_;
      update.depth = keys.size();
      update.a = weights;
      update.a_row = 1;
      update.a_depth = tile_stride_;
      update.b = key;
      update.b_panel = nr_;
      update.b_row = d_stride_;
      update.c = worker_.u.in(memory) + sub.begin * d_stride_;
      update.c_panel = nr_;
      update.c_row = d_stride_;
      update.accumulate = keys.begin > 0;
      update.padded = true;
      kernels_.product(update);
      trace_.remove(tile);
    }
    trace_.remove(rows_of(Operand::A2, keys, d_));
    if (!tied_) trace_.remove(rows_of(value_name, keys, width));
  }

  // dX += A1_I^T U_I, one term of the sum per sub-block of rows.
  void add_to_dx(const Range& rows, void* memory) const {
    const T* u = worker_.u.in(memory);
    const Block a1 = rows_of(Operand::A1, rows, d_);
    trace_.read(a1);
    for (Range k(d_, task_.blocks.a); k; k.next()) {
      for (Range l(d_, task_.blocks.b); l; l.next()) {
        const Block tile = {Operand::dX, k.begin, l.begin, k.size(), l.size()};
        if (rows.begin == 0) {
          trace_.create(tile);
        } else {
          trace_.read(tile);
        }
        for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
          kernels::Product<T> p;
          p.rows = k.size();
          p.cols = l.size();
          p.depth = sub.size();
          p.a = task_.in.a1.at(rows.begin + sub.begin, k.begin);
          p.a_row = 1;
          p.a_depth = task_.in.a1.stride;
          p.b = u + sub.begin * d_stride_ + l.begin;
          p.b_panel = nr_;
          p.b_row = d_stride_;
          p.c = task_.dx.at(k.begin, l.begin);
          p.c_panel = nr_;
          p.c_row = task_.dx.stride;
          p.accumulate = rows.begin + sub.begin > 0;
          kernels_.product(p);
        }
        trace_.write_and_remove(tile);
      }
    }
    trace_.remove(a1);
    trace_.remove(rows_of(Operand::U, rows, d_));
  }

  const BackwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_, nr_;
  int threads_;
  bool h_form_, tied_;
  index_t r_, c_;
  QueryLayout layout_;
  index_t d_stride_, tile_stride_;

  WorkspaceLayout workspace_;  // shared: h, then one WorkspaceLayout per worker
  row_stream::ValueProjection<T> values_;
  WorkspaceLayout workers_;
  Slot<std::byte> all_workers_;
  struct {
    Slot<T> a1, s;   // panels [lanes][d]
    Slot<T> d_o, g;  // panels [lanes][dv], [lanes][d]
    Slot<T> u;       // [r][d]
    Slot<T> key;     // [c][d]
    Slot<T> tile;    // [c][rho], f and then p
    Slot<T> lse, delta;
  } worker_;
};

}  // namespace

template <class T>
Status row_stream_backward(const BackwardTask<T>& task) {
  return RowStreamBackward<T>(task).run();
}

template Status row_stream_backward(const BackwardTask<float>&);
template Status row_stream_backward(const BackwardTask<double>&);

}  // namespace ioattn::schedules
