// The bits of a result depend on its operands alone: not on the lane or the row of a tile that it
// falls in, not on how many rows and columns stand beside it, nor on how a product is split into
// calls. Results that do not depend on the number of threads rest on this.

#include <cstring>
#include <random>

#include "kernels/implementations.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::kernels;

class IndependenceTest : public KernelTest {};

template <class T>
std::vector<T> normal(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> distribution;
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(distribution(engine));
  return values;
}

struct Variant {
  bool accumulate, scale;
  Epilogue epilogue;
  bool by_row = false;
};
constexpr Variant variants[] = {
    {false, false, Epilogue::none},      {true, false, Epilogue::none},
    {true, true, Epilogue::none},        {false, false, Epilogue::exp},
    {true, true, Epilogue::exp},         {false, false, Epilogue::gradient},
    {false, false, Epilogue::exp, true}, {false, false, Epilogue::gradient, true},
};

// Random operands of a product with rows x cols results; B is packed, C row-major.
template <class T>
class RandomProduct {
 public:
  RandomProduct(const KernelTable<T>& table, index_t rows, index_t cols, index_t depth)
      : table_(table),
        nr_(table.tile.cols),
        rows_(rows),
        cols_(cols),
        depth_(depth),
        stride_((cols + nr_ - 1) / nr_ * nr_) {
    a_ = normal<T>(static_cast<std::size_t>(rows * depth), 1);
    b_ = normal<T>(static_cast<std::size_t>(depth * stride_), 2);
    c_ = normal<T>(static_cast<std::size_t>(rows * stride_), 3);
    lane_ = normal<T>(static_cast<std::size_t>(stride_), 4);
    scale_ = normal<T>(static_cast<std::size_t>(rows), 5);
  }

  // Every row the same as row 0, and every column the same as column 0.
  void make_uniform() {
    for (index_t i = 0; i < rows_; ++i)
      std::copy_n(a_.begin(), depth_, a_.begin() + static_cast<std::ptrdiff_t>(i * depth_));
    for (index_t panel = 0; panel < stride_ / nr_; ++panel)
      for (index_t q = 0; q < depth_; ++q)
        for (index_t j = 0; j < nr_; ++j)
          b_[static_cast<std::size_t>((panel * depth_ + q) * nr_ + j)] =
              b_[static_cast<std::size_t>(q * nr_)];
    for (std::vector<T>* same : {&c_, &lane_, &scale_}) same->assign(same->size(), same->front());
  }

  // C after computing rows [first, last) and the panels from that of column `col` to column `end`.
  void compute(const Variant& variant, bool by_depth, index_t first, index_t last, index_t col,
               index_t end, std::vector<T>* c) const {
    std::vector<T> transposed(a_.size());
    for (index_t i = 0; i < rows_; ++i)
      for (index_t q = 0; q < depth_; ++q)
        transposed[static_cast<std::size_t>(q * rows_ + i)] =
            a_[static_cast<std::size_t>(i * depth_ + q)];
    Product<T> p;
    p.rows = last - first;
    p.cols = end - col;
    p.depth = depth_;
    p.a = {nullptr, by_depth ? depth_ : 1, by_depth ? 1 : rows_};
    p.a.data = (by_depth ? a_ : transposed).data() + first * p.a.row;
    p.b = {b_.data() + col * depth_, depth_ * nr_, nr_};
    p.c = {c->data() + first * stride_ + col, nr_, stride_};
    p.accumulate = variant.accumulate;
    p.row_scale = variant.scale ? scale_.data() + first : nullptr;
    p.epilogue = variant.epilogue;
    p.lane = variant.by_row ? nullptr : lane_.data() + col;
    p.row = variant.by_row ? scale_.data() + first : nullptr;
    if (variant.by_row) p.scale = T(0.3);
    table_.product(p);
  }

  std::vector<T> whole(const Variant& variant, bool by_depth) const {
    std::vector<T> c = c_;
    compute(variant, by_depth, 0, rows_, 0, cols_, &c);
    return c;
  }

  const std::vector<T>& initial() const { return c_; }
  index_t stride() const { return stride_; }

 private:
  const KernelTable<T>& table_;
  index_t nr_, rows_, cols_, depth_, stride_;
  std::vector<T> a_, b_, c_, lane_, scale_;
};

template <class T>
bool identical(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

constexpr index_t depths[] = {1, 63, 128, 256, 600};
constexpr index_t least_block = 128;  // of terms, in either layout of A

std::vector<std::pair<Variant, bool>> variants_in_both_layouts() {
  std::vector<std::pair<Variant, bool>> all;
  for (const Variant& variant : variants)
    for (const bool layout : {true, false}) all.emplace_back(variant, layout);
  return all;
}

template <class T>
void check_splits(const KernelTable<T>& table) {
  const index_t rows = 2 * table.tile.rows + 1, nr = table.tile.cols, cols = 2 * nr + 1;
  for (const index_t depth : depths) {
    const RandomProduct<T> product(table, rows, cols, depth);
    for (const auto& [variant, layout] : variants_in_both_layouts()) {
      const std::vector<T> expected = product.whole(variant, layout);
      ASSERT_FALSE(identical(expected, product.initial()));
      if (depth <= least_block) {
        ASSERT_TRUE(identical(product.whole(variant, !layout), expected)) << "layout of A";
      }
      for (index_t split = 1; split < rows; ++split) {
        std::vector<T> c = product.initial();
        product.compute(variant, layout, split, rows, 0, cols, &c);
        product.compute(variant, layout, 0, split, 0, cols, &c);
        ASSERT_TRUE(identical(c, expected)) << "rows split at " << split << ", depth " << depth;
      }
      std::vector<T> c = product.initial();
      for (index_t col = 0; col < cols; col += nr)
        product.compute(variant, layout, 0, rows, col, std::min(col + nr, cols), &c);
      ASSERT_TRUE(identical(c, expected)) << "columns split, depth " << depth;
      for (index_t count = 1; count < cols; ++count) {
        std::vector<T> fewer = product.initial();
        product.compute(variant, layout, 0, rows, 0, count, &fewer);
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < count; ++j) {
            const std::size_t at = static_cast<std::size_t>(i * product.stride() + j);
            ASSERT_TRUE(same_bits(fewer[at], expected[at])) << count << " columns, depth " << depth;
          }
      }
    }
  }
}

TEST_P(IndependenceTest, ProductOfItsSplitIntoCalls) {
  check_splits(table<float>());
  check_splits(table<double>());
}

template <class T>
void check_places(const KernelTable<T>& table) {
  for (const index_t depth : depths) {
    for (index_t rows = 1; rows <= 2 * table.tile.rows; ++rows) {
      const index_t cols = 2 * table.tile.cols + rows % table.tile.cols;
      RandomProduct<T> product(table, rows, cols, depth);
      product.make_uniform();
      for (const Variant& variant : variants) {
        const std::vector<T> c = product.whole(variant, rows % 2 == 0);
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j)
            ASSERT_TRUE(same_bits(c[static_cast<std::size_t>(i * product.stride() + j)], c[0]))
                << "row " << i << " of " << rows << ", column " << j << ", depth " << depth;
      }
    }
  }
}

TEST_P(IndependenceTest, ProductOfRowAndLane) {
  check_places(table<float>());
  check_places(table<double>());
}

template <class T>
void check_same_bits(const KernelTable<T>& table, const KernelTable<T>& other) {
  const index_t nr = table.tile.cols;
  for (const index_t depth : depths)
    for (const index_t rows : {1, 2, 3, 4, 5, 6, 7, 9, 33})
      for (const index_t cols :
           {index_t(1), nr / 4, nr / 4 + 1, nr / 2, nr / 2 + 1, 3 * nr / 4, 3 * nr / 4 + 1, nr + 1,
            nr + nr / 2 + 2, 2 * nr, 3 * nr + 3, 4 * nr}) {
        const RandomProduct<T> one(table, rows, cols, depth), two(other, rows, cols, depth);
        for (const auto& [variant, layout] : variants_in_both_layouts())
          ASSERT_TRUE(identical(one.whole(variant, layout), two.whole(variant, layout)))
              << rows << " rows, " << cols << " columns, depth " << depth;
      }
}

TEST(Independence, ProductOfVectorsTakenByHalves) {
  bool any = false;
  for (const Kernels* kernels : all_kernels()) {
    const Kernels* const halves = kernels->in_halves;
    if (halves == nullptr || kernels->f32->tile.isa != kernels->isa) continue;  // a lesser one's
    if (!ioattn::machine::this_machine().isa.has(kernels->isa)) continue;
    check_same_bits(*kernels->f32, *halves->f32);
    check_same_bits(*kernels->f64, *halves->f64);
    any = true;
  }
  if (!any) GTEST_SKIP() << "no kernels of this CPU have such products";
}

// Everything that the tile kernels compute for each query, from a tile in which each query has the
// values of `column`.
template <class T>
std::vector<std::vector<T>> tile_results(const KernelTable<T>& table, index_t keys, index_t queries,
                                         const std::vector<T>& column,
                                         const std::vector<T>& other) {
  const std::size_t size = static_cast<std::size_t>(keys * queries);
  std::vector<T> x(size), y(size);
  for (std::size_t k = 0; k < size; ++k) {
    x[k] = column[k / static_cast<std::size_t>(queries)];
    y[k] = other[k / static_cast<std::size_t>(queries)];
  }
  const std::vector<T> vector(static_cast<std::size_t>(queries), other.back());
  const auto tile = [&](std::vector<T>& values) {
    return ScoreTile<T>{values.data(), queries, keys, queries};
  };
  std::vector<T> weights = x, gradient = x, sum = vector, shifted = x;
  table.exp_tile(tile(weights), vector.data());
  table.gradient_tile(tile(gradient), tile(y), vector.data(), tile(gradient));
  table.dot_tile(tile(x), tile(y), sum.data());
  std::vector<T> row_max = vector, row_sum = vector, rescale = vector;
  table.softmax_update(tile(shifted), true, row_max.data(), row_sum.data(), rescale.data());
  table.softmax_update(tile(y), false, row_max.data(), row_sum.data(), nullptr);
  return {weights, gradient, sum, shifted, row_max, row_sum, rescale};
}

template <class T>
void check_tiles(const KernelTable<T>& table) {
  const index_t most = 2 * table.tile.cols + 3;
  for (const index_t keys : {1, 5, 300}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      const std::vector<T> column = normal<T>(static_cast<std::size_t>(keys), seed);
      const std::vector<T> other = normal<T>(static_cast<std::size_t>(keys), seed + 100);
      const auto alone = tile_results(table, keys, 1, column, other);
      for (index_t queries = 2; queries <= most; ++queries) {
        const auto together = tile_results(table, keys, queries, column, other);
        for (std::size_t kind = 0; kind < alone.size(); ++kind)
          for (std::size_t k = 0; k < together[kind].size(); ++k)
            ASSERT_TRUE(
                same_bits(together[kind][k], alone[kind][k / static_cast<std::size_t>(queries)]))
                << "result " << kind << ", query " << k % static_cast<std::size_t>(queries)
                << " of " << queries << ", " << keys << " keys";
      }
    }
  }
}

TEST_P(IndependenceTest, TilesOfLane) {
  check_tiles(table<float>());
  check_tiles(table<double>());
}

template <class T>
void check_row_dot(const KernelTable<T>& table) {
  for (const index_t cols : {1, 7, 33, 256, 300}) {
    const std::vector<T> x = normal<T>(static_cast<std::size_t>(cols), 1);
    const std::vector<T> y = normal<T>(static_cast<std::size_t>(cols), 2);
    T alone;
    table.row_dot(1, cols, x.data(), cols, y.data(), cols, &alone);
    for (const index_t shift : {0, 1, 3}) {  // other alignments
      constexpr index_t rows = 5;
      std::vector<T> xs(static_cast<std::size_t>(rows * (cols + 1) + shift), T(7)), ys = xs;
      for (index_t i = 0; i < rows; ++i) {
        std::copy(x.begin(), x.end(),
                  xs.begin() + static_cast<std::ptrdiff_t>(shift + i * (cols + 1)));
        std::copy(y.begin(), y.end(),
                  ys.begin() + static_cast<std::ptrdiff_t>(shift + i * (cols + 1)));
      }
      T out[rows];
      table.row_dot(rows, cols, xs.data() + shift, cols + 1, ys.data() + shift, cols + 1, out);
      for (const T value : out) ASSERT_TRUE(same_bits(value, alone)) << cols << " columns";
    }
  }
}

TEST_P(IndependenceTest, RowDotOfRowAndAlignment) {
  check_row_dot(table<float>());
  check_row_dot(table<double>());
}

IOATTN_FOR_EACH_VARIANT(IndependenceTest);

}  // namespace
}  // namespace ioattn_test
