// Softmax weights straight from the registers that make scores, and those of few queries, against
// the product and softmax_update.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/guarded_pages.hpp"
#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;
using ioattn::kernels::Product;

class WeightsTest : public KernelTest {};

index_t panels_of(index_t columns, index_t nr) { return (columns + nr - 1) / nr; }

// A block of keys and a strip of queries, in panels, each between pages that fault.
template <class T>
class Block {
 public:
  Block(const KernelTable<T>& table, index_t keys, index_t queries, index_t depth)
      : nr_(table.tile.cols), keys_(keys), queries_(queries), depth_(depth) {}

  // Scores of about `spread`.
  void fill(std::mt19937* engine, double spread, Side side) {
    std::normal_distribution<double> normal;
    const auto draw = [&](index_t count, double scale) {
      std::vector<T> x(static_cast<std::size_t>(count));
      for (T& value : x) value = T(scale * normal(*engine));
      return x;
    };
    std::vector<T> queries = draw(lanes() * depth_, spread / std::sqrt(double(depth_)));
    for (index_t i = queries_; i < lanes(); ++i)
      for (index_t q = 0; q < depth_; ++q)
        queries[std::size_t(i / nr_ * nr_ * depth_ + q * nr_ + i % nr_)] = 0;
    stride = lanes() + 3;
    product.rows = keys_;
    product.cols = queries_;
    product.depth = depth_;
    product.a = {a_.place(draw(keys_ * depth_, 1).data(), keys_ * depth_, side), depth_, 1};
    product.b = {b_.place(queries.data(), lanes() * depth_, side), depth_ * nr_, nr_};
    product.c = {c_.place(draw(span(), 1).data(), span(), side), nr_, stride};
    product.padded = true;
  }
  index_t lanes() const { return panels_of(queries_, nr_) * nr_; }
  index_t span() const { return (keys_ - 1) * stride + lanes(); }
  std::vector<T> tile() const { return {product.c.data, product.c.data + span()}; }

  Product<T> product;
  index_t stride = 0;

 private:
  static constexpr std::size_t bytes = std::size_t(1) << 20;
  index_t nr_, keys_, queries_, depth_;
  GuardedPages a_{bytes}, b_{bytes}, c_{bytes};
};

template <class T>
void check(const KernelTable<T>& table) {
  if (table.weights == nullptr) GTEST_SKIP() << "no such kernel";
  std::mt19937 engine(5);
  const auto uniform = [&](index_t first, index_t last) {
    return std::uniform_int_distribution<index_t>(first, last)(engine);
  };
  int made = 0, refused = 0;
  for (int trial = 0; trial < 160 && !testing::Test::HasFailure(); ++trial) {
    const index_t keys = trial % 2 == 0 ? uniform(1, 90) : 8 * uniform(1, 12);
    const index_t queries = uniform(1, 4 * table.tile.cols);
    const index_t depth = trial % 3 == 0 ? uniform(1, 128) : uniform(30, 70);
    SCOPED_TRACE(testing::Message() << keys << " keys, " << queries << " queries, " << depth);
    Block<T> block(table, keys, queries, depth);
    const double spread = trial % 5 == 0 ? 30 : trial % 5 == 1 ? 1e-40 : 1;
    block.fill(&engine, spread, trial % 4 < 2 ? Side::start : Side::end);
    const index_t lanes = block.lanes();
    std::vector<T> row_max(std::size_t(lanes), T(0)), row_sum(std::size_t(lanes), T(3));
    // Maxima of earlier keys, some below what comes.
    for (T& max : row_max) max = T(spread * std::uniform_real_distribution<double>(-1, 4)(engine));
    for (index_t i = queries; i < lanes; ++i) row_max[std::size_t(i)] = 0;
    if (trial % 7 == 0) {
      block.product.beside = block.product.a.data;
      block.product.beside_row = block.product.a.row;
    }
    const std::vector<T> before = block.tile();
    std::vector<T> straight_sum = row_sum;
    const bool done = table.weights(block.product, row_max.data(), straight_sum.data());
    const std::vector<T> straight = block.tile();
    std::vector<T> new_max = row_max, factor(row_max.size());
    table.product(block.product);
    table.softmax_update({block.product.c.data, block.stride, keys, lanes}, true, new_max.data(),
                         row_sum.data(), factor.data());
    new_max.resize(std::size_t(queries));
    ASSERT_EQ(done, std::equal(new_max.begin(), new_max.end(), row_max.begin()));
    if (!done) {
      ++refused;
      for (const T sum : straight_sum) ASSERT_EQ(sum, T(3));
      continue;
    }
    ++made;
    for (std::size_t i = 0; i < std::size_t(queries); ++i)
      ASSERT_EQ(straight_sum[i], row_sum[i]) << "query " << i;
    const std::vector<T> tile = block.tile();
    for (index_t j = 0; j < keys; ++j) {
      for (index_t i = 0; i < queries; ++i) {
        const std::size_t at = std::size_t(j * block.stride + i);
        ASSERT_TRUE(same_bits(straight[at], tile[at])) << "key " << j << ", query " << i;
      }
      for (index_t k = lanes; k < block.stride && j + 1 < keys; ++k) {
        const std::size_t at = std::size_t(j * block.stride + k);
        ASSERT_TRUE(same_bits(straight[at], before[at]));
      }
    }
  }
  EXPECT_GT(made, 40);
  EXPECT_GT(refused, 10);
}

TEST_P(WeightsTest, AreThoseOfTheProduct) { check(table<float>()); }
TEST_P(WeightsTest, AreThoseOfTheProductInDouble) { check(table<double>()); }

// Scores of a key among the last rows, in the last tile or in the first.
template <class T>
void check_refusals(const KernelTable<T>& table) {
  if (table.weights == nullptr) GTEST_SKIP() << "no such kernel";
  const T infinity = std::numeric_limits<T>::infinity();
  std::mt19937 engine(6);
  for (const index_t keys : {8, 16, 17, 23}) {
    for (index_t bad = 0; bad < keys; ++bad) {
      for (const T rise : {infinity, T(1e6), T(32.25)}) {
        const index_t queries = table.tile.cols + 5, depth = 40, nr = table.tile.cols;
        Block<T> block(table, keys, queries, depth);
        block.fill(&engine, 0, Side::end);
        // Scores are a key's first term.
        for (index_t i = 0; i < block.lanes(); ++i)
          const_cast<T*>(block.product.b.data)[i / nr * nr * depth + i % nr] = 1;
        T* const key = const_cast<T*>(block.product.a.data);
        for (index_t j = 0; j < keys; ++j) key[j * depth] = 0;
        std::vector<T> row_max(std::size_t(block.lanes()), T(0)),
            row_sum(std::size_t(block.lanes()), T(2));
        ASSERT_TRUE(table.weights(block.product, row_max.data(), row_sum.data()));
        for (index_t i = 0; i < queries; ++i) ASSERT_EQ(row_sum[std::size_t(i)], T(2 + keys));
        key[bad * depth] = rise;
        const std::vector<T> before = row_sum;
        ASSERT_FALSE(table.weights(block.product, row_max.data(), row_sum.data()))
            << rise << " of key " << bad << " of " << keys;
        ASSERT_EQ(row_sum, before);
        key[bad * depth] = -infinity;
        ASSERT_TRUE(table.weights(block.product, row_max.data(), row_sum.data()));
        for (index_t i = 0; i < queries; ++i) {
          ASSERT_EQ(block.product.c.data[bad * block.stride + i], T(0));
          ASSERT_EQ(row_sum[std::size_t(i)], before[std::size_t(i)] + T(keys - 1));
        }
      }
    }
  }
}

TEST_P(WeightsTest, RefuseWhatRises) { check_refusals(table<float>()); }
TEST_P(WeightsTest, RefuseWhatRisesInDouble) { check_refusals(table<double>()); }

// Of queries that have seen no key there is nothing that weights could refer to.
TEST_P(WeightsTest, NeedMaxima) {
  const KernelTable<float>& kernels = table<float>();
  if (kernels.weights == nullptr) GTEST_SKIP() << "no such kernel";
  std::mt19937 engine(8);
  const index_t queries = kernels.tile.cols + 3;
  for (index_t unseen = 0; unseen < queries; ++unseen) {
    Block<float> block(kernels, 16, queries, 40);
    block.fill(&engine, 0, Side::end);
    std::vector<float> row_max(std::size_t(block.lanes()), 0.f), row_sum(row_max.size(), 2.f);
    row_max[std::size_t(unseen)] = -std::numeric_limits<float>::infinity();
    EXPECT_FALSE(kernels.weights(block.product, row_max.data(), row_sum.data())) << unseen;
    for (const float sum : row_sum) EXPECT_EQ(sum, 2);
  }
}

// The longest sums of terms are another kernel's.
TEST_P(WeightsTest, AreOfNoMoreTermsThanTheySay) {
  const KernelTable<float>& kernels = table<float>();
  if (kernels.weights == nullptr) GTEST_SKIP() << "no such kernel";
  std::mt19937 engine(7);
  for (const index_t more : {0, 1}) {
    Block<float> block(kernels, 16, kernels.tile.cols,
                       KernelTable<float>::most_terms_weighed + more);
    block.fill(&engine, 1, Side::end);
    std::vector<float> row_max(std::size_t(block.lanes()), 9.f), row_sum(row_max.size(), 0.f);
    EXPECT_EQ(kernels.weights(block.product, row_max.data(), row_sum.data()), more == 0);
  }
}

// Maxima, sums and factors of queries.
template <class T>
struct Softmax {
  std::vector<T> max, sum, rescale;
  explicit Softmax(index_t queries)
      : max(std::size_t(queries)), sum(max.size()), rescale(max.size(), T(7)) {}
};

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& expected, const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same_bits(got[i], expected[i]))
        << what << " " << i << ": " << got[i] << ", not " << expected[i];
}

// Rows of C as close as the queries, or farther apart; scores that let maxima stay, rise, and some
// that are -inf.
template <class T>
void check_few(const KernelTable<T>& table) {
  ASSERT_NE(table.few_weights, nullptr);
  ASSERT_EQ(table.few_queries, table.tile.few());
  const T infinity = std::numeric_limits<T>::infinity();
  std::mt19937 engine(9);
  const auto uniform = [&](index_t first, index_t last) {
    return std::uniform_int_distribution<index_t>(first, last)(engine);
  };
  for (int trial = 0; trial < 400 && !testing::Test::HasFailure(); ++trial) {
    const index_t most = table.most_keys_of_few;
    const index_t keys = trial % 16 == 2  ? most - uniform(0, 1)
                         : trial % 3 == 0 ? 16 * uniform(1, 6)
                                          : uniform(1, 90);
    const index_t queries = uniform(1, table.few_queries);
    const index_t depth = trial % 8 == 0 ? uniform(250, 600) : uniform(1, 130);
    SCOPED_TRACE(testing::Message() << keys << " keys, " << queries << " queries, " << depth);
    Block<T> block(table, keys, queries, depth);
    block.fill(&engine, trial % 5 == 0 ? 30 : 1, trial % 4 < 2 ? Side::start : Side::end);
    if (trial % 7 == 0) {
      block.product.beside = block.product.a.data;
      block.product.beside_row = block.product.a.row;
    }
    T* const key = const_cast<T*>(block.product.a.data);
    if (trial % 11 == 0) key[uniform(0, keys - 1) * depth + uniform(0, depth - 1)] = infinity;
    const index_t lanes = block.lanes();
    Softmax<T> expected(lanes), few(queries);
    for (index_t i = 0; i < queries; ++i) {
      const auto at = std::size_t(i);
      const bool is_first = trial % 4 == 1;
      expected.max[at] = is_first ? -infinity : T(uniform(-3, 9));
      expected.sum[at] = is_first ? T(0) : T(uniform(1, 50)) / 3;
      few.max[at] = expected.max[at];
      few.sum[at] = expected.sum[at];
    }
    const index_t stride = trial % 2 == 0 ? queries : queries + uniform(1, 40);
    const index_t words = (keys - 1) * stride + queries;
    GuardedPages pages(std::size_t(1) << 20);
    const std::vector<T> before(std::size_t(words), T(5));
    Product<T> close = block.product;
    close.c.data = pages.place(before.data(), words, trial % 4 < 2 ? Side::start : Side::end);
    close.c.row = stride;
    close.padded = trial % 6 == 0;
    table.few_weights(close, few.max.data(), few.sum.data(), few.rescale.data());
    table.product(block.product);
    table.softmax_update({block.product.c.data, block.stride, keys, lanes}, true,
                         expected.max.data(), expected.sum.data(), expected.rescale.data());
    for (std::vector<T>* of : {&expected.max, &expected.sum, &expected.rescale})
      of->resize(std::size_t(queries));
    if (trial % 11 != 0) expect_same_bits(few.max, expected.max, "maximum");
    expect_same_bits(few.sum, expected.sum, "sum");
    if (trial % 11 != 0) expect_same_bits(few.rescale, expected.rescale, "factor");
    for (index_t at = 0; at < words; ++at) {
      const index_t j = at / stride, i = at % stride;
      const T weight = close.c.data[at];
      const T wanted = i < queries ? block.product.c.data[j * block.stride + i] : T(5);
      ASSERT_TRUE(same_bits(weight, wanted))
          << "key " << j << ", query " << i << ": " << weight << ", not " << wanted;
    }
  }
}

TEST_P(WeightsTest, OfFewQueriesAreThoseOfTheProduct) { check_few(table<float>()); }
TEST_P(WeightsTest, OfFewQueriesAreThoseOfTheProductInDouble) { check_few(table<double>()); }

IOATTN_FOR_EACH_VARIANT(WeightsTest);

}  // namespace
}  // namespace ioattn_test
