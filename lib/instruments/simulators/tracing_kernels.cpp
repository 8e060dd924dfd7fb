#include "instruments/simulators/tracing_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "instruments/simulators/traced_pairs.hpp"
#include "instruments/simulators/traced_storage.hpp"

namespace ioattn::instruments {
namespace {

using kernels::KernelTable;
using kernels::Product;
using kernels::ScoreTile;

// A table holds plain functions, so what they call and record into is found from here. A thread
// takes the next recorder when it first calls a kernel of the table that is alive.
std::vector<TraceRecorder*> recorders;
std::atomic<std::uint64_t> generation{0};  // of tables; 0: none has been
std::atomic<std::size_t> taken{0};
template <class T>
const KernelTable<T>* inner = nullptr;

TraceRecorder* current() {
  thread_local std::uint64_t known = 0;
  thread_local TraceRecorder* mine = nullptr;
  const std::uint64_t now = generation.load(std::memory_order_acquire);
  if (known != now) {
    known = now;
    const std::size_t next = recorders.empty() ? 0 : taken.fetch_add(1);
    mine = next < recorders.size() ? recorders[next] : nullptr;
  }
  return mine;
}

// Of a register tile's rows, beside a product that is not finished in registers.
template <class T>
T* sums() {
  thread_local std::vector<T> words;
  const index_t tile = index_t{inner<T>->tile.rows} * inner<T>->tile.cols;
  words.resize(static_cast<std::size_t>(kernels::tiles_of_sums * tile));
  return words.data();
}

template <class T>
struct Traced {
  static void touch(const T* first, index_t count, bool written) {
    instruments::touch(current(), first, count, written);
  }
  static void read(const T* first, index_t count) { touch(first, count, false); }
  static void write(const T* first, index_t count) { touch(first, count, true); }

  static void product(const Product<T>& p) {
    TraceRecorder* const recorder = current();
    if (recorder != nullptr) TracedProduct<T>(p, inner<T>->tile, recorder, sums<T>()).trace();
    inner<T>->product(p);
  }

  // Squares of adjacent terms are transposed in registers, this many at a time.
  static constexpr index_t side = 8;

  static void pack(const T* src, index_t lane_stride, index_t depth_stride, index_t lanes,
                   index_t depth, T* dst) {
    const index_t nr = inner<T>->tile.cols;
    const index_t step = depth_stride == 1 && lane_stride != 1 ? side : 1;
    const index_t by_rows = lane_stride == 1 ? lanes / nr * nr : 0;  // whole panels
    for (index_t q = 0; q < depth; ++q)
      for (index_t first = 0; first < by_rows; first += nr) {
        read(src + first + q * depth_stride, nr);
        write(dst + first * depth + q * nr, nr);
      }
    for (index_t first = by_rows; first < lanes && depth > 0; first += nr) {
      const index_t width = std::min(nr, lanes - first);
      T* panel = dst + first * depth;
      for (index_t q = 0; q < depth; q += step) {
        const index_t terms = std::min(step, depth - q);
        const T* from = src + first * lane_stride + q * depth_stride;
        if (lane_stride == 1) {
          read(from, width);
          write(panel + q * nr, terms * nr);
          continue;
        }
        for (index_t lane = 0; lane < nr; lane += side) {
          for (index_t j = lane; j < std::min(lane + side, width); ++j) {
            read(from + j * lane_stride, terms);
          }
          for (index_t k = 0; k < terms; ++k) {
            write(panel + (q + k) * nr + lane, std::min(side, nr - lane));
          }
        }
      }
    }
    inner<T>->pack(src, lane_stride, depth_stride, lanes, depth, dst);
  }

  static void transpose(const T* src, index_t src_stride, index_t rows, index_t cols, bool add,
                        T* dst, index_t dst_stride) {
    for (index_t i = 0; i < rows; i += side) {
      const index_t height = std::min(side, rows - i);
      for (index_t j = 0; j < cols; j += side) {
        const index_t width = std::min(side, cols - j);
        for (index_t k = 0; k < height; ++k) read(src + (i + k) * src_stride + j, width);
        for (index_t k = 0; k < width; ++k) write(dst + (j + k) * dst_stride + i, height);
      }
    }
    inner<T>->transpose(src, src_stride, rows, cols, add, dst, dst_stride);
  }

  static void exp_tile(const ScoreTile<T>& tile, const T* lse) {
    for (index_t j = 0; j < tile.keys; ++j) {
      read(lse, tile.queries);
      write(tile.data + j * tile.stride, tile.queries);
    }
    inner<T>->exp_tile(tile, lse);
  }

  static void gradient_tile(const ScoreTile<T>& f, const ScoreTile<T>& q, const T* delta,
                            const ScoreTile<T>& p) {
    for (index_t j = 0; j < f.keys; ++j) {
      read(q.data + j * q.stride, f.queries);
      read(delta, f.queries);
      read(f.data + j * f.stride, f.queries);
      write(p.data + j * p.stride, f.queries);
    }
    inner<T>->gradient_tile(f, q, delta, p);
  }

  // Calls body(first, count) for queries that are summed at once, down the keys.
  template <class Body>
  static void for_queries(index_t queries, const Body& body) {
    const index_t step = 2 * inner<T>->tile.cols;
    for (index_t i = 0; i < queries; i += step) body(i, std::min(step, queries - i));
  }

  static void dot_tile(const ScoreTile<T>& f, const ScoreTile<T>& q, T* sum) {
    for_queries(f.queries, [&](index_t i, index_t count) {
      for (index_t j = 0; j < f.keys; ++j) {
        read(f.data + j * f.stride + i, count);
        read(q.data + j * q.stride + i, count);
      }
      write(sum + i, count);
    });
    inner<T>->dot_tile(f, q, sum);
  }

  static void trace_softmax_update(const ScoreTile<T>& tile, bool store, T* row_max, T* row_sum,
                                   T* rescale) {
    for_queries(tile.queries, [&](index_t i, index_t count) {
      read(row_max + i, count);
      for (index_t j = 0; j < tile.keys; ++j) read(tile.data + j * tile.stride + i, count);
      write(row_max + i, count);
      if (rescale != nullptr) write(rescale + i, count);
      for (index_t j = 0; j < tile.keys; ++j) touch(tile.data + j * tile.stride + i, count, store);
      write(row_sum + i, count);
    });
  }
  static void softmax_update(const ScoreTile<T>& tile, bool store, T* row_max, T* row_sum,
                             T* rescale) {
    trace_softmax_update(tile, store, row_max, row_sum, rescale);
    inner<T>->softmax_update(tile, store, row_max, row_sum, rescale);
  }
  // Scores are in registers, and for a tile's time in memory that stays in L1.
  static bool weights(const Product<T>& p, const T* row_max, T* row_sum) {
    TraceRecorder* const recorder = current();
    if (recorder != nullptr) TracedProduct<T>(p, inner<T>->tile, recorder, sums<T>()).trace();
    read(row_max, p.cols);
    write(row_sum, p.cols);
    return inner<T>->weights(p, row_max, row_sum);
  }

  // As they are made one after the other.
  static void few_weights(const Product<T>& p, T* row_max, T* row_sum, T* rescale) {
    TraceRecorder* const recorder = current();
    Product<T> scores = p;
    scores.padded = false;
    if (recorder != nullptr) TracedProduct<T>(scores, inner<T>->tile, recorder, sums<T>()).trace();
    trace_softmax_update({p.c.data, p.c.row, p.rows, p.cols}, true, row_max, row_sum, rescale);
    inner<T>->few_weights(p, row_max, row_sum, rescale);
  }

  static void row_dot(index_t rows, index_t cols, const T* x, index_t x_stride, const T* y,
                      index_t y_stride, T* out) {
    constexpr index_t step = 4 * side;
    for (index_t i = 0; i < rows; ++i) {
      for (index_t k = 0; k < cols; k += step) {
        read(x + i * x_stride + k, std::min(step, cols - k));
        read(y + i * y_stride + k, std::min(step, cols - k));
      }
      write(out + i, 1);
    }
    inner<T>->row_dot(rows, cols, x, x_stride, y, y_stride, out);
  }

  static void scale_rows(index_t rows, index_t cols, const T* factors, index_t factor_step,
                         const T* src, index_t src_stride, T* dst, index_t dst_stride) {
    if (factor_step != 0) read(factors, rows);  // else a number, no operand
    for (index_t i = 0; i < rows; ++i) {
      read(src + i * src_stride, cols);
      write(dst + i * dst_stride, cols);
    }
    inner<T>->scale_rows(rows, cols, factors, factor_step, src, src_stride, dst, dst_stride);
  }

  static bool are_finite(index_t rows, index_t cols, const T* x, index_t x_stride) {
    for (index_t i = 0; i < rows; ++i) read(x + i * x_stride, cols);
    return inner<T>->are_finite(rows, cols, x, x_stride);
  }

  static KernelTable<T> table(const KernelTable<T>& traced) {
    inner<T> = &traced;
    KernelTable<T> result = traced;
    result.product = product;
    result.pack = pack;
    result.transpose = transpose;
    result.exp_tile = exp_tile;
    result.gradient_tile = gradient_tile;
    result.dot_tile = dot_tile;
    result.softmax_update = softmax_update;
    if (traced.weights != nullptr) result.weights = weights;
    result.few_weights = few_weights;
    result.row_dot = row_dot;
    result.scale_rows = scale_rows;
    result.are_finite = are_finite;
    result.touched = touch;
    return result;
  }
};

}  // namespace

TracingKernels::TracingKernels(const kernels::Kernels& traced,
                               const std::vector<TraceRecorder*>& of_threads)
    : f32_(Traced<float>::table(*traced.f32)),
      f64_(Traced<double>::table(*traced.f64)),
      storage_of_bf16_(traced_storage(traced.f32->storage<bf16>(), traced.f32->tile.cols, current)),
      storage_of_f16_(traced_storage(traced.f32->storage<f16>(), traced.f32->tile.cols, current)),
      kernels_{traced.isa, &f32_, &f64_, &of_bf16_} {
  f32_.of_bf16 = &storage_of_bf16_;
  f32_.of_f16 = &storage_of_f16_;
  of_bf16_ = f32_;
  if (const kernels::PairKernels* pairs = traced.of_bf16->pairs_of_bf16) {
    pairs_ = traced_pairs(*pairs, traced.of_bf16->tile, current);
    of_bf16_ = f32_.with_pairs(traced.of_bf16->tile, &pairs_);
  }
  recorders = of_threads;
  taken = 0;
  generation.fetch_add(1, std::memory_order_release);
  current();  // the thread that makes it is the first
}

TracingKernels::~TracingKernels() {
  recorders.clear();
  generation.fetch_add(1, std::memory_order_release);
}

}  // namespace ioattn::instruments
