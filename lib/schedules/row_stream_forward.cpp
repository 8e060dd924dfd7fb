#include <algorithm>
#include <cmath>
#include <limits>

#include "schedules/masked_tile.hpp"
#include "schedules/row_stream.hpp"
#include "schedules/schedules.hpp"

// Rows of S and of Z = f A3 (or of O) stay; keys and values stream once per row block. fused: X and
// Y stream once more per row block. stored: S and Z pass through memory, O = Z Y is a product of
// its own.
namespace ioattn::schedules {
namespace {

using row_stream::QueryLayout;
using row_stream::score_product;

template <class T>
class RowStreamForward {
 public:
  explicit RowStreamForward(const ForwardTask<T>& task)
      : task_(task),
        trace_(task.observer),
        kernels_(*task.kernels),
        n_(task.shape.n),
        m_(task.shape.m),
        d_(task.shape.d),
        e_(task.shape.dv),
        mask_(task.shape.mask),
        nr_(kernels_.tile.cols),
        threads_(task.observer != nullptr ? 1 : task.threads),
        h_form_(task.blocks.form == Form::h),
        tied_(!h_form_ && task.shape.tie != Tie::none),
        width_(h_form_ ? e_ : d_),
        r_(row_stream::rows_per_block(task.shape, task.blocks, threads_)),
        c_(std::min(task.blocks.c, m_)),
        layout_{std::min(task.blocks.rho, r_), nr_},
        d_stride_(row_stream::padded_stride<T>(d_, nr_)),
        sum_stride_(row_stream::padded_stride<T>(width_, nr_)),
        tile_stride_(layout_.sub_lanes() + nr_),
        stored_(task.blocks.products == Products::stored),
        values_(task.shape, task.blocks, nr_, threads_, &workspace_) {
    if (stored_) {
      s_ = workspace_.add<T>(n_ * d_stride_);
      s_product_ = ProductPass<T>(n_, d_, d_, task.blocks.s, nr_, threads_, &workspace_);
    }
    if (stored_ && !h_form_) {
      z_ = workspace_.add<T>(n_ * d_stride_);
      o_product_ = ProductPass<T>(n_, d_, e_, task.blocks.x, nr_, threads_, &workspace_);
    }
    const index_t lanes = layout_.lanes(r_);
    worker_.a1 = workers_.add<T>(stored_ ? 0 : lanes * d_);
    worker_.s = workers_.add<T>(lanes * d_);
    worker_.sum = workers_.add<T>(r_ * sum_stride_);
    worker_.key = workers_.add<T>(c_ * d_stride_);
    worker_.value = workers_.add<T>(h_form_ || tied_ ? 0 : c_ * d_stride_);
    worker_.tile = workers_.add<T>(c_ * tile_stride_);
    worker_.row_max = workers_.add<T>(lanes);
    worker_.row_sum = workers_.add<T>(lanes);
    worker_.rescale = workers_.add<T>(layout_.sub_lanes());
    worker_.y =
        workers_.add<T>(h_form_ || stored_ ? 0 : d_ * round_up(std::min(task.blocks.w, e_), nr_));
    all_workers_ = workspace_.add<std::byte>(workers_.bytes() * threads_);
  }

  Status run() {
    WorkspaceMemory buffer;
    const Status allocated = workspace_.allocate(task_.memory, &buffer);
    if (!allocated.is_ok()) return allocated;
    if (stored_) {
      trace_.phase("S");
      s_product_.run(kernels_, trace_, factor(Operand::A1, task_.in.a1),
                     factor(Operand::X, task_.in.x),
                     {Operand::S, s_.in(buffer.data()), d_stride_, 1, false, false}, buffer.data());
    }
    if (h_form_) values_.run(kernels_, trace_, task_.in, buffer.data());

    trace_.phase("row_stream");
    parallel::Dispenser blocks;
    const index_t count = ceil_div(n_, r_);
    auto body = [&](int worker) {
      void* memory = all_workers_.in(buffer.data()) + worker * workers_.bytes();
      // The padding of the rows is read as lanes.
      std::fill_n(worker_.key.in(memory), worker_.key.count, T(0));
      std::fill_n(worker_.value.in(memory), worker_.value.count, T(0));
      for (index_t block = blocks.take(); block < count; block = blocks.take()) {
        const Range rows(block * r_, n_, r_);
        start(rows, buffer.data(), memory);
        for (Range keys = blocks_within(mask_.of_any(interval_of(rows), m_), c_); keys; keys.next())
          stream_keys(rows, keys, buffer.data(), memory);
        finish(rows, buffer.data(), memory);
      }
    };
    parallel::run(threads_, body);
    if (stored_ && !h_form_) {
      trace_.phase("O");
      o_product_.run(kernels_, trace_,
                     {Operand::Z, z_.in(buffer.data()), d_stride_, 1, false, false},
                     factor(Operand::Y, task_.in.y),
                     {Operand::O, task_.o.data, task_.o.stride, 1, false, false}, buffer.data());
    }
    return Status::ok();
  }

 private:
  Block rows_of(Operand operand, const Range& rows, index_t cols) const {
    return {operand, rows.begin, 0, rows.size(), cols};
  }
  Block accumulator(const Range& rows) const {
    return rows_of(h_form_ ? Operand::O : Operand::Z, rows, width_);
  }

  void start(const Range& rows, void* workspace, void* memory) const {
    if (stored_) {
      trace_.read(rows_of(Operand::S, rows, d_));
      row_stream::pack_rows(kernels_, layout_,
                            MatrixView<const T>{s_.in(workspace), n_, d_, d_stride_}, rows,
                            worker_.s.in(memory));
    } else {
      row_stream::project_queries(kernels_, trace_, layout_, task_.in, rows, task_.blocks.w,
                                  worker_.a1.in(memory), worker_.s.in(memory));
    }
    trace_.create(accumulator(rows));
    trace_.create(rows_of(Operand::row_max, rows, 1));
    trace_.create(rows_of(Operand::row_sum, rows, 1));
    std::fill_n(worker_.row_max.in(memory), worker_.row_max.count,
                -std::numeric_limits<T>::infinity());
    std::fill_n(worker_.row_sum.in(memory), worker_.row_sum.count, T(0));
    if (mask_.hides()) std::fill_n(worker_.sum.in(memory), worker_.sum.count, T(0));
  }

  void stream_keys(const Range& rows, const Range& keys, void* workspace, void* memory) const {
    const Operand value_name = h_form_ ? Operand::h : Operand::A3;
    T* key = worker_.key.in(memory);
    trace_.read(rows_of(Operand::A2, keys, d_));
    for (index_t j = 0; j < keys.size(); ++j)
      std::copy_n(task_.in.a2.row(keys.begin + j), d_, key + j * d_stride_);
    const T* value = key;
    index_t value_stride = d_stride_;
    if (!tied_) {
      trace_.read(rows_of(value_name, keys, width_));
      if (h_form_) {
        const MatrixView<const T> h = values_.h(workspace);
        value = h.row(keys.begin);
        value_stride = h.stride;
      } else {
        T* copy = worker_.value.in(memory);
        for (index_t j = 0; j < keys.size(); ++j)
          std::copy_n(task_.in.a3.row(keys.begin + j), d_, copy + j * d_stride_);
        value = copy;
      }
    }
    for (Range sub(rows.size(), layout_.rho); sub; sub.next()) {
      const Range queries(rows.begin + sub.begin, rows.begin + sub.end, sub.size());
      const Interval seen = intersect(mask_.of_any(interval_of(queries), m_), interval_of(keys));
      if (seen.is_empty()) continue;
      const index_t skipped = seen.begin - keys.begin;
      add_keys(queries, sub, Range(seen.begin, seen.end, seen.size()), key + skipped * d_stride_,
               value + skipped * value_stride, value_stride, memory);
    }
    trace_.remove(rows_of(Operand::A2, keys, d_));
    if (!tied_) trace_.remove(rows_of(value_name, keys, width_));
  }

  // Scores of one tile, online softmax, and the weighted sum of the values.
  void add_keys(const Range& queries, const Range& sub, const Range& keys, const T* key_rows,
                const T* value, index_t value_stride, void* memory) const {
    const Block tile = {Operand::scores, queries.begin, keys.begin, sub.size(), keys.size()};
    const Block factors = {Operand::rescale, queries.begin, 0, sub.size(), 1};
    trace_.create(tile);
    trace_.create(factors);
    T* scores = worker_.tile.in(memory);
    T* rescale = worker_.rescale.in(memory);
    const index_t lane = layout_.lane_offset(sub.begin);

    const MatrixView<const T> key = {key_rows, keys.size(), d_, d_stride_};
    kernels_.product(score_product(layout_, key, worker_.s.in(memory), sub,
                                   {scores, tile_stride_, keys.size(), sub.size()}));
    if (!is_full(mask_, interval_of(queries), interval_of(keys))) {
      hide(mask_, queries, keys, -std::numeric_limits<T>::infinity(), scores, tile_stride_);
    }

    kernels_.softmax_update({scores, tile_stride_, keys.size(), layout_.sub_lanes()}, true,
                            worker_.row_max.in(memory) + lane, worker_.row_sum.in(memory) + lane,
                            rescale);

    kernels::Product<T> update;
    update.rows = sub.size();
    update.cols = width_;
    update.depth = keys.size();
    update.a = scores;
    update.a_row = 1;
    update.a_depth = tile_stride_;
    update.b = value;
    update.b_panel = nr_;
    update.b_row = value_stride;
    update.c = worker_.sum.in(memory) + sub.begin * sum_stride_;
    update.c_panel = nr_;
    update.c_row = sum_stride_;
    update.accumulate = mask_.hides() || keys.begin > 0;
    update.row_scale = rescale;
    update.padded = true;
    masked_product(kernels_, update, mask_, queries, keys);
    trace_.remove(tile);
    trace_.remove(factors);
  }

  // Divides by the sums, writes LSE and O, or Z if it is stored (g-form: O_I = Z_I Y, Y streams by
  // blocks of w columns).
  void finish(const Range& rows, void* workspace, void* memory) const {
    T* sum = worker_.sum.in(memory);
    const T* row_max = worker_.row_max.in(memory);
    const T* row_sum = worker_.row_sum.in(memory);
    trace_.remove(rows_of(Operand::S, rows, d_));
    for (index_t i = 0; i < rows.size(); ++i) {
      const index_t lane = layout_.lane_offset(i - i % layout_.rho) + i % layout_.rho;
      // A row that sees no key, or scores of -inf alone: O = 0, LSE = -inf.
      const T inverse = row_sum[lane] == T(0) ? T(0) : T(1) / row_sum[lane];
      for (index_t k = 0; k < width_; ++k) sum[i * sum_stride_ + k] *= inverse;
      task_.lse[rows.begin + i] = row_max[lane] + std::log(row_sum[lane]);
    }
    // LSE takes the place of the running sum.
    trace_.remove(rows_of(Operand::row_max, rows, 1));
    trace_.write_and_remove(rows_of(Operand::row_sum, rows, 1));
    if (h_form_ || stored_) {
      const MatrixView<T> result =
          h_form_ ? task_.o : MatrixView<T>{z_.in(workspace), n_, d_, d_stride_};
      for (index_t i = 0; i < rows.size(); ++i)
        std::copy_n(sum + i * sum_stride_, width_, result.row(rows.begin + i));
      trace_.write_and_remove(accumulator(rows));
      return;
    }
    trace_.create(rows_of(Operand::O, rows, e_));
    for (Range y(e_, task_.blocks.w); y; y.next()) {
      const Block streamed = {Operand::Y, 0, y.begin, d_, y.size()};
      trace_.read(streamed);
      T* panels = worker_.y.in(memory);
      kernels_.pack(task_.in.y.at(0, y.begin), 1, task_.in.y.stride, y.size(), d_, panels);
      kernels::Product<T> p;
      p.rows = rows.size();
      p.cols = y.size();
      p.depth = d_;
      p.a = sum;
      p.a_row = sum_stride_;
      p.a_depth = 1;
      p.b = panels;
      p.b_panel = d_ * nr_;
      p.b_row = nr_;
      p.c = task_.o.at(rows.begin, y.begin);
      p.c_panel = nr_;
      p.c_row = task_.o.stride;
      kernels_.product(p);
      trace_.remove(streamed);
    }
    trace_.write_and_remove(rows_of(Operand::O, rows, e_));
    trace_.remove(accumulator(rows));
  }

  const ForwardTask<T>& task_;
  Trace trace_;
  const kernels::KernelTable<T>& kernels_;
  index_t n_, m_, d_, e_;
  Mask mask_;
  index_t nr_;
  int threads_;
  bool h_form_, tied_;
  index_t width_;  // of the accumulated rows: dv in the h-form, else d
  index_t r_, c_;
  QueryLayout layout_;
  index_t d_stride_, sum_stride_, tile_stride_;
  bool stored_;

  WorkspaceLayout workspace_;  // shared: h, S, Z, then one WorkspaceLayout per worker
  Slot<T> s_, z_;              // [n][d], stored
  ProductPass<T> s_product_, o_product_;
  row_stream::ValueProjection<T> values_;
  WorkspaceLayout workers_;
  Slot<std::byte> all_workers_;
  struct {
    Slot<T> a1, s;       // panels [lanes][d]
    Slot<T> sum;         // [r][width], Z or O
    Slot<T> key, value;  // [c][d]
    Slot<T> tile;        // [c][rho]
    Slot<T> row_max, row_sum, rescale;
    Slot<T> y;  // panels [w][d]
  } worker_;
};

}  // namespace

template <class T>
Status row_stream_forward(const ForwardTask<T>& task) {
  return RowStreamForward<T>(task).run();
}

template Status row_stream_forward(const ForwardTask<float>&);
template Status row_stream_forward(const ForwardTask<double>&);

}  // namespace ioattn::schedules
