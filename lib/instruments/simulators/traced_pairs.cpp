#include "instruments/simulators/traced_pairs.hpp"

#include <algorithm>
#include <vector>

namespace ioattn::instruments {
namespace {

using kernels::bf16x2;
using kernels::PairKernels;
using Product = kernels::Product<float, bf16x2>;

// A table holds plain functions, so what they call and record into is found from here.
TraceRecorder* (*current)() = nullptr;
const PairKernels* inner = nullptr;
TileShape tile_of_inner;

template <class Word>
void read(const Word* first, index_t count) {
  touch(current(), first, count, false);
}
template <class Word>
void write(const Word* first, index_t count) {
  touch(current(), first, count, true);
}

// Squares of 16 lanes and 16 pairs are transposed in registers; tiles have as many rows and words.
constexpr index_t side = 16;

// 32 columns of B, whose rows stay, by as many of A, which stream.
void trace_transposed(const Product& p) {
  constexpr index_t strip = 2 * side;
  for (index_t col = 0; col < p.cols; col += strip) {
    const index_t cols = std::min(strip, p.cols - col);
    for (index_t row = 0; row < p.rows; row += strip) {
      const index_t rows = std::min(strip, p.rows - row);
      const auto sums = [&](index_t j) { return p.c.data + (col + j) * p.c.row + row; };
      for (index_t j = 0; j < cols && p.accumulate; ++j) read(sums(j), rows);
      for (index_t j = 0; j < cols; ++j) read(p.b.data + (col + j) * p.b.row, p.depth);
      for (index_t q = 0; q < p.depth; ++q) read(p.a.at(row, q), rows);
      for (index_t j = 0; j < cols; ++j) write(sums(j), rows);
    }
  }
}

void product(const Product& p) {
  using Trace = TracedProduct<float, bf16x2>;
  if (p.transposed) {
    trace_transposed(p);
  } else if (TraceRecorder* const recorder = current()) {
    // Of a register tile's rows, beside a product that is not finished in registers.
    thread_local std::vector<float> sums;
    const index_t tile = index_t{tile_of_inner.rows} * tile_of_inner.cols;
    sums.resize(static_cast<std::size_t>(kernels::tiles_of_sums * tile));
    Trace(p, tile_of_inner, recorder, sums.data()).trace();
  }
  inner->product(p);
}

void pack(const bf16* src, index_t lane_stride, index_t depth_stride, index_t lanes, index_t depth,
          bf16x2* dst) {
  const index_t nr = tile_of_inner.cols;
  const index_t step = depth_stride == 1 && lane_stride != 1 ? 2 * side : 2;
  const auto pack_terms = [&](index_t first, index_t q) {
    const index_t width = std::min(nr, lanes - first), terms = std::min(step, depth - q);
    const bf16* from = src + first * lane_stride + q * depth_stride;
    if (lane_stride == 1) {
      for (index_t k = 0; k < terms; ++k) read(from + k * depth_stride, width);
    } else {
      for (index_t j = 0; j < width; ++j)
        for (index_t k = 0; k < (depth_stride == 1 ? 1 : terms); ++k)
          read(from + j * lane_stride + k * depth_stride, depth_stride == 1 ? terms : 1);
    }
    write(dst + first * ceil_div(depth, 2) + q / 2 * nr, ceil_div(terms, 2) * nr);
  };
  if (lane_stride == 1) {  // rows go into all panels at once
    for (index_t q = 0; q < depth; q += step)
      for (index_t first = 0; first < lanes; first += nr) pack_terms(first, q);
  } else {
    for (index_t first = 0; first < lanes; first += nr)
      for (index_t q = 0; q < depth; q += step) pack_terms(first, q);
  }
  inner->pack(src, lane_stride, depth_stride, lanes, depth, dst);
}

void copy(const bf16* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
          index_t dst_stride) {
  for (index_t i = 0; i < rows; ++i) {
    read(src + i * src_stride, cols);
    write(dst + i * dst_stride, ceil_div(cols, 2));
  }
  inner->copy(src, src_stride, rows, cols, dst, dst_stride);
}

void transpose(const bf16* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
               index_t dst_stride) {
  for (index_t i = 0; i < rows; i += 2 * side)
    for (index_t k = 0; k < cols; k += 2 * side) {
      const index_t height = std::min(2 * side, rows - i), width = std::min(2 * side, cols - k);
      for (index_t j = i; j < i + height; ++j) read(src + j * src_stride + k, width);
      for (index_t j = k; j < k + width; ++j)
        write(dst + j * dst_stride + i / 2, ceil_div(height, 2));
    }
  inner->transpose(src, src_stride, rows, cols, dst, dst_stride);
}

void round(const float* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
           index_t dst_stride) {
  for (index_t i = 0; i < rows; i += 2) {
    for (index_t j = 0; j < cols; j += side) {
      const index_t width = std::min(side, cols - j);
      read(src + i * src_stride + j, width);
      if (i + 1 < rows) read(src + (i + 1) * src_stride + j, width);
      write(dst + i / 2 * dst_stride + j, width);
    }
  }
  inner->round(src, src_stride, rows, cols, dst, dst_stride);
}

void gradient(const kernels::PairGradient& g) {
  for (index_t i = 0; i < g.rows; i += 2) {
    const index_t height = std::min(index_t(2), g.rows - i);
    read(g.delta + i, height);
    for (index_t j = 0; j < g.cols; j += 2 * side) {
      const index_t width = std::min(2 * side, g.cols - j);
      for (index_t k = i; k < i + height; ++k) {
        read(g.f + k * g.stride + j, width);
        read(g.q + k * g.stride + j, width);
      }
      if (g.by_rows != nullptr) write(g.by_rows + i / 2 * g.by_rows_stride + j, width);
      for (index_t k = i; k < i + height && g.by_cols != nullptr; ++k)
        write(g.by_cols + k * g.by_cols_stride + j / 2, ceil_div(width, 2));
      for (index_t k = i; k < i + height && g.in_f32 != nullptr; ++k)
        write(g.in_f32 + k * g.stride + j, width);
    }
  }
  inner->gradient(g);
}

void softmax_update(const kernels::ScoreTile<float>& tile, float scale, float* row_max,
                    float* row_sum, float* rescale, bf16x2* dst, index_t dst_stride) {
  const index_t step = 4 * side;
  for (index_t i = 0; i < tile.queries; i += step) {
    const index_t count = std::min(step, tile.queries - i);
    for (index_t j = 0; j < tile.keys; ++j) read(tile.data + j * tile.stride + i, count);
    write(row_max + i, count);
    if (rescale != nullptr) write(rescale + i, count);
    for (index_t j = 0; j < tile.keys; ++j) {
      read(tile.data + j * tile.stride + i, count);
      if (j % 2 != 0 || j + 1 == tile.keys) write(dst + j / 2 * dst_stride + i, count);
    }
    write(row_sum + i, count);
  }
  inner->softmax_update(tile, scale, row_max, row_sum, rescale, dst, dst_stride);
}

void softmax_rows(const kernels::ScoreTile<float>& tile, float scale, float* row_max,
                  float* row_sum, float* rescale, bf16x2* dst, index_t dst_stride, float margin) {
  for (index_t i = 0; i < tile.queries; i += side) {
    const index_t count = std::min(side, tile.queries - i);
    for (index_t k = i; k < i + count; ++k) read(tile.data + k * tile.stride, tile.keys);
    write(row_max + i, count);
    if (rescale != nullptr) write(rescale + i, count);
    for (index_t k = i; k < i + count; ++k) {
      read(tile.data + k * tile.stride, tile.keys);
      write(dst + k * dst_stride, ceil_div(tile.keys, 2));
    }
    write(row_sum + i, count);
  }
  inner->softmax_rows(tile, scale, row_max, row_sum, rescale, dst, dst_stride, margin);
}

bool weights(const Product& p, const kernels::PairWeights& weights) {
  for (index_t col = 0; col < p.cols; col += tile_of_inner.cols) {
    const index_t panel = col / tile_of_inner.cols;
    for (index_t i = 0; i < p.rows; ++i) read(p.a.at(i, 0), p.depth);
    for (index_t q = 0; q < p.depth; ++q) read(p.b.row_of(panel, q), tile_of_inner.cols);
    const index_t width = std::min<index_t>(tile_of_inner.cols, p.cols - col);
    for (index_t i = 0; i < p.rows; ++i)
      write(weights.dst + i * weights.dst_stride + col / 2, ceil_div(width, 2));
  }
  read(weights.row_max, p.rows);
  write(weights.row_sum, p.rows);
  return inner->weights(p, weights);
}

void few_product(const Product& p, const kernels::UnpackedTerms& b) {
  const index_t nr = tile_of_inner.cols;
  const bool by_lanes = b.lane_stride == 1;
  const index_t step = by_lanes ? nr : side;
  for (index_t col = 0; col < p.cols; col += step) {
    const index_t width = std::min(step, p.cols - col);
    for (index_t q = 0; q < b.depth; q += by_lanes ? 2 : 2 * side) {
      const index_t terms = std::min(by_lanes ? 2 : 2 * side, b.depth - q);
      for (index_t i = 0; i < p.rows; ++i) read(p.a.at(i, 0) + q / 2, ceil_div(terms, 2));
      const index_t runs = by_lanes ? terms : width;
      for (index_t k = 0; k < runs; ++k)
        read(by_lanes ? b.src + (q + k) * b.depth_stride + col
                      : b.src + (col + k) * b.lane_stride + q,
             by_lanes ? width : terms);
    }
    for (index_t i = 0; i < p.rows; ++i) {
      if (p.accumulate) read(p.c.row_of(0, i) + col, width);
      write(p.c.row_of(0, i) + col, width);
    }
  }
  if (p.row_scale != nullptr) read(p.row_scale, p.rows);
  inner->few_product(p, b);
}

bool few_weights(const kernels::ScoreTile<float>& tile, const kernels::PairWeights& weights) {
  for (index_t i = 0; i < tile.queries; ++i) {
    read(tile.data + i * tile.stride, tile.keys);
    write(weights.dst + i * weights.dst_stride, ceil_div(tile.keys, 2));
  }
  read(weights.row_max, tile.queries);
  write(weights.row_sum, tile.queries);
  return inner->few_weights(tile, weights);
}

void gradients(const Product& scores, const Product& q, const kernels::PairGradients& g) {
  const index_t nr = tile_of_inner.cols;
  for (index_t row = 0; row < scores.rows; row += 2 * side) {
    const index_t height = std::min(2 * side, scores.rows - row);
    read(g.lse + row, height);
    read(g.delta + row, height);
    for (index_t col = 0; col < scores.cols; col += nr) {
      for (const Product* p : {&scores, &q}) {
        for (index_t i = row; i < row + height; ++i) read(p->a.at(i, 0), p->depth);
        for (index_t k = 0; k < p->depth; ++k) read(p->b.row_of(col / nr, k), nr);
      }
      const index_t width = std::min(nr, scores.cols - col);
      for (index_t i = row; i < row + height; ++i) {
        if (i % 2 == 0) write(g.f_by_rows + i / 2 * g.stride + col, width);
        if (i % 2 == 0) write(g.p_by_rows + i / 2 * g.stride + col, width);
        write(g.p_by_cols + i * g.stride + col / 2, ceil_div(width, 2));
      }
    }
  }
  inner->gradients(scores, q, g);
}

}  // namespace

PairKernels traced_pairs(const PairKernels& traced, const TileShape& tile,
                         TraceRecorder* (*recorder_of_thread)()) {
  current = recorder_of_thread;
  inner = &traced;
  tile_of_inner = tile;
  PairKernels result = traced;
  result.product = product;
  result.pack = pack;
  result.copy = copy;
  result.round = round;
  result.gradient = gradient;
  result.softmax_update = softmax_update;
  result.softmax_rows = softmax_rows;
  if (traced.weights != nullptr) result.weights = weights;
  if (traced.few_product != nullptr) {
    result.few_product = few_product;
    result.few_weights = few_weights;
  }
  if (traced.gradients != nullptr) result.gradients = gradients;
  if (traced.transpose != nullptr) result.transpose = transpose;
  return result;
}

}  // namespace ioattn::instruments
