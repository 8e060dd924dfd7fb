// C (+)= A B with everything that can be done to C, against a plain loop. All numbers are small
// multiples of 1/64, so that every sum is exact in either type and one wrong term shows.

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::kernels;

class ProductTest : public KernelTest {};

constexpr index_t depths[] = {0, 1, 2, 7, 64, 255, 256, 257, 600};
constexpr index_t most_depth = 600;

struct Variant {
  bool accumulate, scale;
  Epilogue epilogue;
  const char* name;
  bool by_row = false;
  double factor = 1;  // of AB
};
constexpr Variant variants[] = {
    {false, false, Epilogue::none, "C = AB"},
    {true, false, Epilogue::none, "C += AB"},
    {true, true, Epilogue::none, "C = row_scale C + AB"},
    {false, false, Epilogue::exp, "C = exp(AB - lane)"},
    {true, false, Epilogue::exp, "C = exp(C + AB - lane)"},
    {true, true, Epilogue::exp, "C = exp(row_scale C + AB - lane)"},
    {false, false, Epilogue::gradient, "C = C o (AB - lane)"},
    {false, false, Epilogue::exp, "C = exp(AB - row)", true},
    {true, true, Epilogue::exp, "C = exp(row_scale C + AB - row)", true},
    {false, false, Epilogue::gradient, "C = C o (AB - row)", true},
    {false, false, Epilogue::exp, "C = exp(AB/8 - row)", true, 0.125},
    {true, false, Epilogue::exp, "C = exp(C + AB/8 - row)", true, 0.125},
    {true, true, Epilogue::exp, "C = exp(row_scale C + AB/8 - row)", true, 0.125},
    {false, false, Epilogue::gradient, "C = C o (AB/8 - row)", true, 0.125},
};

template <class T>
class ProductSweep {
 public:
  explicit ProductSweep(const KernelTable<T>& table)
      : table_(table),
        nr_(table.tile.cols),
        most_rows_(2 * table.tile.rows + 1),
        most_cols_(2 * table.tile.cols + 1) {
    std::mt19937 engine(5);
    const auto draw = [&](index_t count, int range, double unit) {
      std::vector<T> values(static_cast<std::size_t>(count));
      for (T& value : values)
        value = static_cast<T>(unit * std::uniform_int_distribution<int>(-range, range)(engine));
      return values;
    };
    a_ = draw(most_rows_ * most_depth, 4, 1);
    b_ = draw(most_depth * most_cols_, 4, 1.0 / 64);
    c_ = draw(most_rows_ * most_cols_, 4, 1.0 / 64);
    scale_ = draw(most_rows_, 4, 0.5);
    lane_ = draw(most_cols_, 64, 1.0 / 64);
    row_ = draw(most_rows_, 64, 1.0 / 64);
  }

  void run(index_t depth) {
    sums_.assign(static_cast<std::size_t>(most_rows_ * most_cols_), 0);
    for (index_t i = 0; i < most_rows_; ++i)
      for (index_t q = 0; q < depth; ++q)
        for (index_t j = 0; j < most_cols_; ++j)
          sums_[at(i, j)] += static_cast<double>(a(i, q)) * static_cast<double>(b(q, j));
    expected_.clear();
    for (const Variant& variant : variants) expected_.push_back(results(variant));
    for (index_t rows = 1; rows <= most_rows_; ++rows)
      for (index_t cols = 1; cols <= most_cols_; ++cols)
        for (int layout = 0; layout < 4; ++layout) {
          const Case c = {rows, cols, depth, layout % 2 == 0, layout / 2 == 0};
          bool laid_out = false;
          for (std::size_t k = 0; k < std::size(variants); ++k)
            for (const bool padded : {false, true}) {
              if (cases_++ % every_ != 0) continue;
              if (!laid_out) lay_out(c);
              laid_out = true;
              check(c, variants[k], expected_[k], padded);
            }
          if (testing::Test::HasFailure()) return;
        }
  }

  index_t checked() const { return checked_; }

 private:
  struct Case {
    index_t rows, cols, depth;
    bool a_by_depth;  // the terms of a row of A are adjacent, else its rows are
    bool b_packed;    // B in panels and C row-major, else the reverse
  };

  std::size_t at(index_t i, index_t j) const {
    return static_cast<std::size_t>(i * most_cols_ + j);
  }
  T a(index_t i, index_t q) const { return a_[static_cast<std::size_t>(i * most_depth + q)]; }
  T b(index_t q, index_t j) const { return b_[static_cast<std::size_t>(q * most_cols_ + j)]; }

  // Operands are laid out with NaN wherever the product has no business.
  void lay_out(const Case& c) {
    const index_t panels = (c.cols + nr_ - 1) / nr_;
    const T nan = guard<T>();
    product_ = {};
    product_.rows = c.rows;
    product_.cols = c.cols;
    product_.depth = c.depth;

    product_.a.row = c.a_by_depth ? c.depth + 3 : 1;
    product_.a.depth = c.a_by_depth ? 1 : c.rows + 3;
    a_memory_.assign(
        static_cast<std::size_t>((c.rows - 1) * product_.a.row +
                                 std::max<index_t>(c.depth - 1, 0) * product_.a.depth + 1),
        nan);
    for (index_t i = 0; i < c.rows; ++i)
      for (index_t q = 0; q < c.depth; ++q)
        a_memory_[static_cast<std::size_t>(i * product_.a.row + q * product_.a.depth)] = a(i, q);
    product_.a.data = a_memory_.data();

    const index_t row_major = panels * nr_ + 2;
    product_.b.row = c.b_packed ? nr_ : row_major;
    product_.b.panel = c.b_packed ? c.depth * nr_ : nr_;
    const index_t b_size = c.b_packed ? panels * c.depth * nr_ : c.depth * row_major;
    b_memory_.assign(static_cast<std::size_t>(std::max<index_t>(b_size, 1)), nan);  // not null
    for (index_t q = 0; q < c.depth; ++q)
      for (index_t j = 0; j < c.cols; ++j)
        b_memory_[static_cast<std::size_t>(j / nr_ * product_.b.panel + q * product_.b.row +
                                           j % nr_)] = b(q, j);
    product_.b.data = b_memory_.data();

    product_.c.row = c.b_packed ? row_major : nr_;
    product_.c.panel = c.b_packed ? nr_ : c.rows * nr_ + 5;
    lane_memory_.assign(static_cast<std::size_t>(panels * nr_), nan);
    std::copy_n(lane_.begin(), c.cols, lane_memory_.begin());

    c_size_ = (c.rows - 1) * product_.c.row + (panels - 1) * product_.c.panel + nr_;
    is_whole_c_.assign(static_cast<std::size_t>(c_size_), false);
    is_c_ = is_whole_c_;
    places_.clear();
    for (index_t i = 0; i < c.rows; ++i)
      for (index_t j = 0; j < panels * nr_; ++j) {
        const index_t place = j / nr_ * product_.c.panel + i * product_.c.row + j % nr_;
        is_whole_c_[static_cast<std::size_t>(place)] = true;
        if (j >= c.cols) continue;
        is_c_[static_cast<std::size_t>(place)] = true;
        places_.push_back(place);
      }
  }

  void start(const Case& c, const Variant& variant, bool padded) {
    product_.accumulate = variant.accumulate;
    product_.epilogue = variant.epilogue;
    product_.padded = padded;
    product_.row_scale = variant.scale ? scale_.data() : nullptr;
    const bool shifts = variant.epilogue != Epilogue::none;
    product_.lane = shifts && !variant.by_row ? lane_memory_.data() : nullptr;
    product_.row = shifts && variant.by_row ? row_.data() : nullptr;
    product_.scale = static_cast<T>(variant.factor);
    product_.beside = padded ? product_.a.data : nullptr;
    product_.beside_row = product_.a.row;
    constexpr index_t size = sizeof(T);
    product_.ahead = {};
    if (padded) product_.ahead = {product_.b.data, c.depth, c.cols * size, product_.b.row * size};
    c_memory_ = Guarded<T>(c_size_);
    const bool reads_c = variant.accumulate || variant.epilogue == Epilogue::gradient;
    for (index_t i = 0; reads_c && i < c.rows; ++i)
      for (index_t j = 0; j < c.cols; ++j) c_memory_[place(c, i, j)] = c_[at(i, j)];
    c_memory_.snapshot();
    product_.c.data = c_memory_.data();
  }

  index_t place(const Case& c, index_t i, index_t j) const {
    return places_[static_cast<std::size_t>(i * c.cols + j)];
  }

  // Of all rows and columns: what a variant makes of an element does not depend on those beside it.
  std::vector<double> results(const Variant& variant) const {
    std::vector<double> all(sums_.size());
    for (index_t i = 0; i < most_rows_; ++i)
      for (index_t j = 0; j < most_cols_; ++j) all[at(i, j)] = result(i, j, variant);
    return all;
  }
  double result(index_t i, index_t j, const Variant& variant) const {
    const double old = static_cast<double>(c_[at(i, j)]);
    double sum = variant.factor * sums_[at(i, j)];
    if (variant.accumulate)
      sum += variant.scale ? old * static_cast<double>(scale_[static_cast<std::size_t>(i)]) : old;
    if (variant.epilogue == Epilogue::none) return sum;
    const double shifted =
        sum - static_cast<double>(variant.by_row ? row_[static_cast<std::size_t>(i)]
                                                 : lane_[static_cast<std::size_t>(j)]);
    if (variant.epilogue == Epilogue::gradient) return old * shifted;
    return std::exp(std::min(shifted, 0.0));
  }
  // Exact, but for exp.
  static bool is_right(T value, double expected, const Variant& variant) {
    if (variant.epilogue != Epilogue::exp) return static_cast<double>(value) == expected;
    constexpr double ulp = std::numeric_limits<T>::epsilon();
    return std::abs(static_cast<double>(value) - expected) <= 2 * ulp * expected;
  }

  void check(const Case& c, const Variant& variant, const std::vector<double>& expected,
             bool padded) {
    start(c, variant, padded);
    table_.product(product_);
    ++checked_;
    index_t wrong = 0;
    for (index_t i = 0; i < c.rows; ++i)
      for (index_t j = 0; j < c.cols; ++j)
        wrong += !is_right(c_memory_[place(c, i, j)], expected[at(i, j)], variant);
    const std::vector<char>& is_written = padded ? is_whole_c_ : is_c_;
    const index_t damaged = c_memory_.damaged([&](index_t k) {
      return k >= 0 && k < c_size_ && is_written[static_cast<std::size_t>(k)] != 0;
    });
    if (wrong != 0 || damaged != 0) {
      ADD_FAILURE() << variant.name << ": " << wrong << " wrong and " << damaged
                    << " overwritten beside C for " << c.rows << " x " << c.cols << " x " << c.depth
                    << (c.a_by_depth ? ", A row-major" : ", A column-major")
                    << (c.b_packed ? ", B packed" : ", C in panels") << (padded ? ", padded" : "");
    }
  }

  const KernelTable<T>& table_;
  index_t nr_, most_rows_, most_cols_;
  std::vector<T> a_, b_, c_, scale_, lane_, row_;
  std::vector<double> sums_;
  std::vector<std::vector<double>> expected_;  // by variant
  std::vector<T> a_memory_, b_memory_, lane_memory_;
  Guarded<T> c_memory_{0};
  index_t c_size_ = 0;
  std::vector<index_t> places_;          // of C's elements in its memory, row by row
  std::vector<char> is_c_, is_whole_c_;  // of that memory: C, and C by whole panels
  Product<T> product_;
  const index_t every_ = test_every();
  index_t cases_ = 0;
  index_t checked_ = 0;
};

template <class T>
void sweep(const KernelTable<T>& table) {
  ProductSweep<T> product(table);
  for (const index_t depth : depths) {
    product.run(depth);
    if (testing::Test::HasFailure()) return;
  }
  const index_t sizes = (2 * table.tile.rows + 1) * (2 * table.tile.cols + 1);
  const index_t cases =
      sizes * static_cast<index_t>(std::size(depths) * 4 * 2 * std::size(variants));
  EXPECT_EQ(product.checked(), (cases + test_every() - 1) / test_every());
}

TEST_P(ProductTest, IsExactInF32) { sweep(table<float>()); }
TEST_P(ProductTest, IsExactInF64) { sweep(table<double>()); }

template <class T>
void check_empty(const KernelTable<T>& table) {
  Guarded<T> c(100);
  c.snapshot();
  const T one = 1;
  Product<T> product;
  product.depth = 1;
  product.a = {&one, 1, 1};
  product.b = {&one, table.tile.cols, 1};
  product.c = {c.data(), table.tile.cols, 1};
  for (const index_t rows : {0, 5}) {
    product.rows = rows;
    product.cols = rows == 0 ? 5 : 0;
    table.product(product);
  }
  EXPECT_EQ(c.damaged([](index_t) { return false; }), 0);
}

TEST_P(ProductTest, OfNothingWritesNothing) {
  check_empty(table<float>());
  check_empty(table<double>());
}

// Softmax reads what is computed, not only what there is.
template <class T>
void check_padded_columns(const KernelTable<T>& table) {
  constexpr T unwritten = 42;
  const index_t rows = table.tile.rows + 1, nr = table.tile.cols, depth = 3;
  for (index_t cols = 1; cols <= 3 * nr; ++cols) {
    const index_t panels = (cols + nr - 1) / nr;
    const std::vector<T> a(static_cast<std::size_t>(rows * depth), 1);
    const std::vector<T> b(static_cast<std::size_t>(panels * depth * nr), 1);
    std::vector<T> c(static_cast<std::size_t>(rows * panels * nr), unwritten);
    Product<T> p;
    p.rows = rows;
    p.cols = cols;
    p.depth = depth;
    p.a = {a.data(), depth, 1};
    p.b = {b.data(), depth * nr, nr};
    p.c = {c.data(), nr, panels * nr};
    p.padded = true;
    table.product(p);
    index_t left_out = 0;
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < table.tile.computed(cols); ++j)
        left_out += c[static_cast<std::size_t>(i * panels * nr + j)] == unwritten;
    EXPECT_EQ(left_out, 0) << cols << " columns";
  }
}

TEST_P(ProductTest, WritesWhatIsComputedOfAPaddedPanel) {
  check_padded_columns(table<float>());
  check_padded_columns(table<double>());
}

IOATTN_FOR_EACH_VARIANT(ProductTest);

}  // namespace
}  // namespace ioattn_test
