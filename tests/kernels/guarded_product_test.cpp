// Products and packing with every operand flush against pages that fault: nothing beside what
// kernel_table.hpp grants is read or written, and the place of the operands changes no bit.

#include <cstring>
#include <random>

#include "kernels/guarded_pages.hpp"
#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn::kernels;

class GuardedProduct : public KernelTest {};

constexpr std::size_t bytes = std::size_t(1) << 20;

template <class T>
std::vector<T> random_values(index_t count) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = uniform(engine);
  return values;
}

enum class Shift { none, lane, row };
struct Form {
  bool accumulate, scale;
  Epilogue epilogue;
  Shift shift;
};
constexpr Form forms[] = {
    {false, false, Epilogue::none, Shift::none},    {true, false, Epilogue::none, Shift::none},
    {true, true, Epilogue::none, Shift::none},      {false, false, Epilogue::exp, Shift::lane},
    {true, false, Epilogue::exp, Shift::lane},      {true, true, Epilogue::exp, Shift::lane},
    {false, false, Epilogue::exp, Shift::row},      {true, false, Epilogue::exp, Shift::row},
    {true, true, Epilogue::exp, Shift::row},        {false, false, Epilogue::gradient, Shift::lane},
    {false, false, Epilogue::gradient, Shift::row},
};

template <class T>
class ProductSweep {
 public:
  explicit ProductSweep(const KernelTable<T>& table)
      : table_(table), nr_(table.tile.cols), values_(random_values<T>(bytes / sizeof(T))) {}

  // Every form of a product of these sizes, in 8 layouts.
  void run(index_t rows, index_t cols, index_t depth) {
    for (int layout = 0; layout < 8; ++layout)
      for (const bool padded : {false, true}) {
        if (calls_++ % test_every() != 0) continue;
        for (const Side side : sides) {
          const Product<T> p = lay_out(rows, cols, depth, layout, padded, side);
          for (std::size_t form = 0; form < std::size(forms); ++form) {
            running = {"product", {rows, cols, depth, layout, padded, int(side), index_t(form)}};
            call(p, forms[form], side, &results_[form]);
          }
        }
        if (testing::Test::HasFailure()) return;
      }
  }
  index_t products() const { return products_; }

 private:
  // Bits of the layout: A and B by columns or terms, C in panels.
  Product<T> lay_out(index_t rows, index_t cols, index_t depth, int layout, bool padded,
                     Side side) {
    const index_t panels = (cols + nr_ - 1) / nr_, gap = depth % 3;
    Product<T> p;
    p.rows = rows;
    p.cols = cols;
    p.depth = depth;
    p.padded = padded;
    index_t a_count = 0, b_count = 0;
    if ((layout & 1) != 0) {
      p.a.row = 1;
      p.a.depth = rows + gap;
      a_count = span_of(depth, rows, p.a.depth);
    } else {
      p.a.row = depth + gap;
      p.a.depth = 1;
      a_count = span_of(rows, depth, p.a.row);
    }
    if ((layout & 2) != 0) {
      p.b.panel = depth * nr_;
      p.b.row = nr_;
      b_count = panels * depth * nr_;
    } else {
      p.b.panel = nr_;
      p.b.row = cols + gap;
      b_count = span_of(depth, panels * nr_, p.b.row);
    }
    const index_t last = padded ? nr_ : cols - (panels - 1) * nr_;
    if ((layout & 4) != 0) {
      p.c.panel = rows * nr_;
      p.c.row = nr_;
      c_count_ = cols == 0 ? 0 : (panels - 1) * p.c.panel + span_of(rows, last, nr_);
    } else {
      p.c.panel = nr_;
      p.c.row = (padded ? panels * nr_ : cols) + gap;
      c_count_ = span_of(rows, padded ? panels * nr_ : cols, p.c.row);
    }
    p.a.data = a_.place(values_.data(), a_count, side);
    p.beside = padded ? p.a.data : nullptr;  // prefetches may pass what they are told of
    p.beside_row = p.a.row;
    p.b.data = b_.place(values_.data() + 1, b_count, side);
    p.c.data = c_.place<T>(c_count_, side);
    lane_at_ = lane_.place(values_.data() + 2, panels * nr_, side);
    row_at_ = row_.place(values_.data() + 3, rows, side);
    scale_at_ = scale_.place(values_.data() + 4, rows, side);
    return p;
  }

  void call(Product<T> p, const Form& form, Side side, std::vector<T>* first) {
    p.accumulate = form.accumulate;
    p.row_scale = form.scale ? scale_at_ : nullptr;
    p.epilogue = form.epilogue;
    p.lane = form.shift == Shift::lane ? lane_at_ : nullptr;
    p.row = form.shift == Shift::row ? row_at_ : nullptr;
    if (c_count_ > 0) {
      std::memcpy(p.c.data, values_.data(), static_cast<std::size_t>(c_count_) * sizeof(T));
    }
    table_.product(p);
    ++products_;
    if (side == sides[0]) {
      first->assign(p.c.data, p.c.data + c_count_);
    } else if (c_count_ > 0) {
      ASSERT_EQ(std::memcmp(p.c.data, first->data(), first->size() * sizeof(T)), 0)
          << p.rows << " x " << p.cols << " x " << p.depth << " differs with its place";
    }
  }

  const KernelTable<T>& table_;
  index_t nr_, c_count_ = 0, products_ = 0, calls_ = 0;
  std::vector<T> values_, results_[std::size(forms)];
  GuardedPages a_{bytes}, b_{bytes}, c_{bytes}, lane_{bytes}, row_{bytes}, scale_{bytes};
  const T *lane_at_ = nullptr, *row_at_ = nullptr, *scale_at_ = nullptr;
};

// Every pair of tails of rows and columns, each with some tails of terms.
template <class T>
void check_products(const KernelTable<T>& table) {
  const index_t most_rows = 2 * table.tile.rows + 1, most_cols = 2 * table.tile.cols + 1;
  ProductSweep<T> sweep(table);
  std::mt19937 engine(8);
  std::uniform_int_distribution<index_t> any_depth(0, most_cols);
  for (index_t rows = 0; rows <= most_rows; ++rows)
    for (index_t cols = 0; cols <= most_cols; ++cols)
      for (int i = 0; i < 3; ++i) {
        sweep.run(rows, cols, any_depth(engine));
        if (testing::Test::HasFailure()) return;
      }
  for (index_t depth = 0; depth <= most_cols; ++depth)
    sweep.run(table.tile.rows + 1, table.tile.cols + 1, depth);
  // Several blocks of terms, and of rows on the way of sums.
  for (const index_t rows : {table.tile.rows + 1, 16 * table.tile.rows + 1})
    for (const index_t depth : {255, 256, 257, 513}) sweep.run(rows, table.tile.cols + 1, depth);
  EXPECT_GT(sweep.products() * test_every(), 30000);
}

TEST_P(GuardedProduct, StaysInItsOperands) {
  const FaultsAreTold told;
  check_products(table<float>());
  check_products(table<double>());
}

template <class T>
void check_pack(const KernelTable<T>& table) {
  const index_t nr = table.tile.cols, most = 2 * nr + 1;
  const std::vector<T> values = random_values<T>(bytes / sizeof(T));
  GuardedPages source(bytes), packed(bytes);
  index_t calls = 0;
  for (index_t lanes = 0; lanes <= most; ++lanes)
    for (index_t depth = 0; depth <= most; ++depth)
      for (int layout = 0; layout < 5; ++layout) {
        if (calls++ % test_every() != 0) continue;
        const index_t gap = layout / 2 * 3, apart = layout == 4 ? 2 : 1;
        const bool terms = layout % 2 == 0;  // of a lane adjacent, or lanes of a term
        const index_t lane_stride = terms ? apart * depth + gap : 1;
        const index_t depth_stride = terms ? apart : lanes + gap;
        const index_t count = terms ? span_of(lanes, apart * (depth - 1) + 1, lane_stride)
                                    : span_of(depth, lanes, depth_stride);
        const index_t size = (lanes + nr - 1) / nr * nr * depth;
        std::vector<T> first;
        for (const Side side : sides) {
          running = {"pack", {lanes, depth, layout, int(side)}};
          const T* const src = source.place(values.data(), depth == 0 ? 0 : count, side);
          T* const dst = packed.place<T>(size, side);
          table.pack(src, lane_stride, depth_stride, lanes, depth, dst);
          if (side == sides[0]) first.assign(dst, dst + size);
          ASSERT_TRUE(size == 0 || std::memcmp(dst, first.data(), first.size() * sizeof(T)) == 0)
              << lanes << " x " << depth;
        }
      }
}

TEST_P(GuardedProduct, PackStaysInItsOperands) {
  const FaultsAreTold told;
  check_pack(table<float>());
  check_pack(table<double>());
}

IOATTN_FOR_EACH_VARIANT(GuardedProduct);

}  // namespace
}  // namespace ioattn_test
