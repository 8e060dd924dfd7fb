#pragma once

#include "base/isa.hpp"
#include "base/types.hpp"

namespace ioattn::kernels {

// What becomes of C = A B (+ C) before it is stored. Columns are SIMD lanes; `shift` is `lane`, one
// value per column, or `row`, one value per row.
enum class Epilogue : std::uint8_t {
  none,      // C
  exp,       // exp(min(C - shift, 0)): softmax weights f from scores, shift = LSE
  gradient,  // C_old o (A B - shift): p from f (in C) and q = A B, shift = delta
};

// Two terms of a sum, the first in the lower half. Rounded tiles take the place of tiles in f32.
struct __attribute__((may_alias)) bf16x2 {
  std::uint32_t bits;
};

// Rows that are read next and come from beyond L2: a product may fetch them into it meanwhile.
struct RowsAhead {
  const void* first = nullptr;
  index_t rows = 0, row_bytes = 0, stride_bytes = 0;
  const RowsAhead* then = nullptr;  // those that are read after them
};

// A matrix whose element (i, q) is at data[i * row + q * depth]; one of the strides is 1.
template <class T>
struct Strided {
  T* data = nullptr;
  index_t row = 0, depth = 0;

  T* at(index_t i, index_t q) const { return data + i * row + q * depth; }
};

// A matrix in panels of nr = `TileShape::cols` columns: element (q, j) is at
// data[(j / nr) * panel + q * row + j % nr]. A plain row-major matrix has panel = nr and its stride
// for `row`.
template <class T>
struct Panels {
  T* data = nullptr;
  index_t panel = 0, row = 0;

  T* row_of(index_t i, index_t q) const { return data + i * panel + q * row; }  // of panel i
};

// C[rows x cols] (+)= A[rows x depth] B[depth x cols]. Every panel of B must be readable over all
// its columns (zeros beyond `cols`). Sums are taken in blocks of terms (base/sum_length.hpp).
// Elements of A and B are W, which may be pairs of terms: then depth and its strides count pairs.
template <class T, class W = T>
struct Product {
  index_t rows = 0, cols = 0, depth = 0;
  Strided<const W> a;
  Panels<const W> b;
  Panels<T> c;
  bool accumulate = false;       // add to C; excludes Epilogue::gradient
  const T* row_scale = nullptr;  // with accumulate: row i of C is first multiplied by row_scale[i]
  Epilogue epilogue = Epilogue::none;
  const T* lane = nullptr;  // readable over whole panels
  const T* row = nullptr;   // instead of lane
  bool padded = false;      // C's last panel may be written over all nr columns, and is over those
                            // that are computed (TileShape::computed)
  T scale = 1;              // of A B, if W are pairs or with `row`
  // B[q][j] is at b.data[j * b.row + q] and C[i][j] at c.data[j * c.row + i]: of sums alone, where
  // PairKernels::transpose. Rows of C beyond `cols` of whole tiles may be written as they are.
  bool transposed = false;
  // A comes from beyond L2, by rows, and so do as many rows beside it that are read next: those of
  // A are prefetched a tile ahead, these into L2 meanwhile. They may be longer or shorter.
  const W* beside = nullptr;
  index_t beside_row = 0;
  // Fetched by products without an epilogue: of single terms where A is read by columns, of pairs
  // by vectors where it is by rows, of pairs by tiles. Tiles and few_product fetch none that come
  // `then`.
  RowsAhead ahead;
};

// A score tile: `keys` x `queries`, queries are SIMD lanes. Neither the tile nor the vectors over
// queries are touched beyond `queries`.
template <class T>
struct ScoreTile {
  T* data = nullptr;
  index_t stride = 0;
  index_t keys = 0, queries = 0;
};

// Between 16-bit storage and f32. Rounding is to nearest even, whatever the floating-point
// environment, a NaN becomes quiet and keeps the upper bits of its payload, and denormals are kept
// (base/half.hpp). Nothing is touched beyond the elements.
template <class S>
struct StorageKernels {
  // dst[i][k] = src[i][k]
  void (*widen)(const S* src, index_t src_stride, index_t rows, index_t cols, float* dst,
                index_t dst_stride);
  // dst[i][k] = factors[i * factor_step] src[i][k]; the product is the environment's, unless the
  // factor is 1.
  void (*narrow)(const float* src, index_t src_stride, index_t rows, index_t cols,
                 const float* factors, index_t factor_step, S* dst, index_t dst_stride);
  // As KernelTable::pack.
  void (*pack)(const S* src, index_t lane_stride, index_t depth_stride, index_t lanes,
               index_t depth, float* dst);
  // As KernelTable::row_dot of the floats, with its bits.
  void (*row_dot)(index_t rows, index_t cols, const S* x, index_t x_stride, const S* y,
                  index_t y_stride, float* out);
};

// p = scale f o (q - delta) of score tiles [rows][cols] with one delta per row, rounded to 16 bits
// and, perhaps, in f32 without the scale.
struct PairGradient {
  index_t rows = 0, cols = 0;
  const float *f = nullptr, *q = nullptr;
  index_t stride = 0;  // of f and q
  const float* delta = nullptr;
  float scale = 1;
  bf16x2* by_rows = nullptr;  // null, or [r][j] = {p[2r][j], p[2r + 1][j]}
  index_t by_rows_stride = 0;
  bf16x2* by_cols = nullptr;  // null, or [i][k] = {p[i][2k], p[i][2k + 1]}; may take the place of f
  index_t by_cols_stride = 0;
  float* in_f32 = nullptr;  // null, or of the stride of f and q; may take the place of q
};

// Terms as PairKernels::pack takes them; one of the strides is 1.
struct UnpackedTerms {
  const bf16* src = nullptr;
  index_t lane_stride = 0, depth_stride = 0, depth = 0;
};

// Where weights of rows of scores go, whose maxima are known.
struct PairWeights {
  float scale = 1;  // of the scores, > 0
  const float* row_max = nullptr;
  float* row_sum = nullptr;
  bf16x2* dst = nullptr;  // [i][k] = {weight[i][2k], weight[i][2k + 1]}
  index_t dst_stride = 0;
};

// What softmax weights and their gradients are made of beside two products, scores and q = dO V^T,
// and where they go, rounded to 16 bits: f = exp(scale * score - lse) and p = scale f o (q -
// delta).
struct PairGradients {
  const float *lse = nullptr, *delta = nullptr;  // of rows
  float scale = 1;
  // [r][j] = {x[2r][j], x[2r + 1][j]}
  bf16x2 *f_by_rows = nullptr, *p_by_rows = nullptr;
  bf16x2* p_by_cols = nullptr;  // [i][k] = {p[i][2k], p[i][2k + 1]}
  index_t stride = 0;           // of all three
};

// For an ISA that multiplies pairs of 16-bit terms and adds both products to a sum in f32. A last
// odd term is paired with 0. Denormals count as 0; roundings are to nearest even.
struct PairKernels {
  // Within a PairRegion.
  void (*product)(const Product<float, bf16x2>& product);

  // As KernelTable::pack: panel row q holds the terms 2q and 2q + 1 of `depth` terms.
  void (*pack)(const bf16* src, index_t lane_stride, index_t depth_stride, index_t lanes,
               index_t depth, bf16x2* dst);
  // dst[i][k] = {src[i][2k], src[i][2k + 1]}
  void (*copy)(const bf16* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
               index_t dst_stride);
  // dst[r][j] = {src[2r][j], src[2r + 1][j]}
  void (*round)(const float* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
                index_t dst_stride);
  void (*gradient)(const PairGradient& gradient);

  // As KernelTable::softmax_update of scale * tile, scale > 0, but the weights are rounded and go
  // to dst[r][i] = {weight[2r][i], weight[2r + 1][i]}: r by keys, i by queries. Nothing is touched
  // beyond `queries`.
  void (*softmax_update)(const ScoreTile<float>& tile, float scale, float* row_max, float* row_sum,
                         float* rescale, bf16x2* dst, index_t dst_stride);
  // The same of a tile of rows of keys, one a query (ScoreTile's other way round):
  // dst[i][k] = {weight[i][2k], weight[i][2k + 1]}. Nothing is touched beyond `keys`, but the
  // second weight of a last odd one is 0. A maximum stays until weights would exceed 2^8, and
  // becomes the largest of scale * tile and `margin` then: what weights refer to need not be a
  // score.
  void (*softmax_rows)(const ScoreTile<float>& tile, float scale, float* row_max, float* row_sum,
                       float* rescale, bf16x2* dst, index_t dst_stride, float margin);

  // As KernelTable::fma_loop; a pair is two multiply-adds.
  float (*fma_loop)(index_t iterations);
  index_t fma_per_iteration;

  // What product, with C for the tile, and softmax_rows do, where no maximum has to change and none
  // is -inf or as large as 2^12: true, C is not touched and there is nothing to rescale. Else, or
  // of more rows or pairs of terms than these, it may be false, and nothing but dst has been
  // touched. Null: there is no such kernel.
  static constexpr index_t most_rows_weighed = 32, most_pairs_weighed = 256;
  bool (*weights)(const Product<float, bf16x2>& scores, const PairWeights& weights) = nullptr;

  // Weights and gradients of scores and q, two products of the same rows and columns and at most
  // most_pairs_weighed pairs of terms, whose C, epilogue and scale are not used: as product, round
  // and gradient make them but for their last bits, without a score in memory. Null: there is no
  // such kernel.
  void (*gradients)(const Product<float, bf16x2>& scores, const Product<float, bf16x2>& q,
                    const PairGradients& gradients) = nullptr;

  // What product does with few_rows at most and a B that was packed, without an epilogue: the same
  // bits. Nothing of C is touched beyond `cols`. Of the rows ahead one is fetched beside each lane,
  // if its terms are adjacent, or beside each term. Null: there is no such kernel.
  static constexpr index_t few_rows = 8;
  void (*few_product)(const Product<float, bf16x2>& product, const UnpackedTerms& b) = nullptr;
  // What weights does, of scores in memory, rows of keys. Null if few_product is.
  bool (*few_weights)(const ScoreTile<float>& scores, const PairWeights& weights) = nullptr;

  // dst[k][r] = {src[2r][k], src[2r + 1][k]}: B of a product whose C is transposed, too, where A is
  // read by columns as it lies. Null: `product` takes none such.
  void (*transpose)(const bf16* src, index_t src_stride, index_t rows, index_t cols, bf16x2* dst,
                    index_t dst_stride) = nullptr;

  // Set up and give back registers that product and fma_loop need on the calling thread; null if
  // there are none. PairRegion calls them.
  void (*acquire)() = nullptr;
  void (*release)() = nullptr;
};

// The calling thread may multiply pairs, if there are any, until the end of the scope. Not nested:
// the registers are one set per thread.
class PairRegion {
 public:
  explicit PairRegion(const PairKernels* pairs)
      : release_(pairs != nullptr ? pairs->release : nullptr) {
    if (pairs != nullptr && pairs->acquire != nullptr) pairs->acquire();
  }
  ~PairRegion() {
    if (release_ != nullptr) release_();
  }
  PairRegion(const PairRegion&) = delete;
  PairRegion& operator=(const PairRegion&) = delete;

 private:
  void (*release_)();
};

// Straight-line SIMD code of one ISA.
template <class T>
struct KernelTable {
  TileShape tile;

  void (*product)(const Product<T>& product);

  // dst panel p, row q, lane j%nr = src[j * lane_stride + q * depth_stride]; lanes beyond `lanes`
  // are 0. A panel holds `depth` rows of nr elements.
  void (*pack)(const T* src, index_t lane_stride, index_t depth_stride, index_t lanes,
               index_t depth, T* dst);

  // dst[j][i] (+)= src[i][j] for i < rows, j < cols
  void (*transpose)(const T* src, index_t src_stride, index_t rows, index_t cols, bool add, T* dst,
                    index_t dst_stride);

  // tile = exp(min(tile - lse, 0)): weights are 1 at most, however LSE was rounded.
  void (*exp_tile)(const ScoreTile<T>& tile, const T* lse);
  // p = f o (q - delta), elementwise on tiles of the same shape; p may be f or q
  void (*gradient_tile)(const ScoreTile<T>& f, const ScoreTile<T>& q, const T* delta,
                        const ScoreTile<T>& p);
  // sum[i] += sum over keys of f o q
  void (*dot_tile)(const ScoreTile<T>& f, const ScoreTile<T>& q, T* sum);

  // Online softmax over the keys of one tile: updates the running row_max and row_sum, sets
  // rescale = exp(old max - new max) unless it is null; with `store` the tile becomes
  // exp(tile - new max). A maximum stays until weights would exceed e^32: what they refer to need
  // not be the largest score.
  void (*softmax_update)(const ScoreTile<T>& tile, bool store, T* row_max, T* row_sum, T* rescale);

  // out[i] = sum_k x[i][k] y[i][k]
  void (*row_dot)(index_t rows, index_t cols, const T* x, index_t x_stride, const T* y,
                  index_t y_stride, T* out);

  // dst[i][k] = factors[i * factor_step] src[i][k], in place too.
  void (*scale_rows)(index_t rows, index_t cols, const T* factors, index_t factor_step,
                     const T* src, index_t src_stride, T* dst, index_t dst_stride);

  // Whether no x[i][k] is NaN or infinite
  bool (*are_finite)(index_t rows, index_t cols, const T* x, index_t x_stride);

  // Independent multiply-adds in registers, for the machine's peak: returns a value that depends on
  // all of them. fma_per_iteration multiply-adds each.
  T (*fma_loop)(index_t iterations);
  index_t fma_per_iteration;

  // Of a product without an epilogue vectors compute a multiple of so many columns.
  index_t least_columns;

  // What product and softmax_update, with `store` and C for the tile, do with scores, rows
  // of keys by columns of queries, where no maximum has to change and none is -inf: true, and there
  // is nothing to rescale. Else, or of more terms or panels than these, it is false: C has no
  // values and the sums are as they were. C is written, and maxima and sums are read and written,
  // over whole panels; accumulate, epilogue and scale are not used. Null: there is no such kernel.
  static constexpr index_t most_terms_weighed = 128, most_panels_weighed = 8;
  bool (*weights)(const Product<T>& scores, const T* row_max, T* row_sum) = nullptr;
  // Of keys that queries see first, whose largest scores do as maxima for `weights` of the others;
  // 0: softmax_update of all takes less time.
  index_t first_keys = 0;

  // What product and softmax_update do, with `store`, with scores, at most most_keys_of_few rows of
  // keys by at most few_queries columns of queries: the same bits. Nothing of C, maxima, sums and
  // rescale is touched beyond these columns, so that rows of C may be as close as that; accumulate,
  // epilogue and scale are not used.
  void (*few_weights)(const Product<T>& scores, T* row_max, T* row_sum, T* rescale) = nullptr;
  static constexpr index_t most_keys_of_few = 256;
  index_t few_queries = 0;

  // Told of words that a schedule reads or writes without a kernel; null where nobody traces.
  void (*touched)(const T* first, index_t count, bool written) = nullptr;

  // Of f32 alone.
  const StorageKernels<bf16>* of_bf16 = nullptr;
  const StorageKernels<f16>* of_f16 = nullptr;
  const PairKernels* pairs_of_bf16 = nullptr;  // null if products are of f32 alone

  // The same kernels, with products of pairs.
  constexpr KernelTable with_pairs(const TileShape& shape, const PairKernels* pairs) const {
    KernelTable table = *this;
    table.tile = shape;
    table.pairs_of_bf16 = pairs;
    return table;
  }

  template <class S>
  const StorageKernels<S>& storage() const {
    if constexpr (std::is_same_v<S, bf16>) {
      return *of_bf16;
    } else {
      return *of_f16;
    }
  }
};

}  // namespace ioattn::kernels
