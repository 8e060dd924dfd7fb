// The online softmax: after any number of tiles row_max and row_sum are those of all keys so far.

#include <cmath>
#include <limits>
#include <random>

#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;

class SoftmaxTest : public KernelTest {};

constexpr double inf = std::numeric_limits<double>::infinity();

// Running softmax statistics of `queries` rows, as a schedule starts them.
template <class T>
struct Rows {
  explicit Rows(index_t queries) : count(queries), max(queries), sum(queries), rescale(queries) {
    for (index_t i = 0; i < queries; ++i) {
      max[i] = -std::numeric_limits<T>::infinity();
      sum[i] = 0;
    }
    for (Guarded<T>* vector : {&max, &sum, &rescale}) vector->snapshot();
  }
  index_t damaged() const {
    index_t total = 0;
    for (const Guarded<T>* vector : {&max, &sum, &rescale})
      total += vector->damaged([this](index_t k) { return k >= 0 && k < count; });
    return total;
  }

  index_t count;
  Guarded<T> max, sum, rescale;
};

template <class T>
struct Tile {
  Tile(index_t keys_, index_t queries_)
      : keys(keys_), queries(queries_), stride(queries_ + 3), values(keys_ * stride) {}
  T& at(index_t j, index_t i) { return values[j * stride + i]; }
  index_t damaged() const {
    return values.damaged(
        [this](index_t k) { return k >= 0 && k < keys * stride && k % stride < queries; });
  }
  index_t keys, queries, stride;
  Guarded<T> values;
};

// Scores of all kinds: each row of the softmax is one of them.
double score(index_t query, std::mt19937* engine) {
  const double x = std::normal_distribution<double>()(*engine);
  switch (query % 7) {
    case 0: return x;
    case 1: return 30 * x;
    case 2: return -inf;                        // masked throughout
    case 3: return (*engine)() % 4 ? -inf : x;  // masked here and there
    case 4: return 1e30 * x;
    case 5: return 5000 + x;  // exp of it overflows in either type
    default: return -5000 + x;
  }
}

template <class T>
void check(const KernelTable<T>& table) {
  constexpr double epsilon = std::numeric_limits<T>::epsilon();
  std::mt19937 engine(9);
  for (index_t queries = 1; queries <= 2 * table.tile.cols + 3; ++queries) {
    for (const bool store : {false, true}) {
      for (const bool with_rescale : {false, true}) {
        Rows<T> rows(queries);
        std::vector<std::vector<double>> seen(static_cast<std::size_t>(queries));
        for (const index_t keys : {1, 5, 0, 300, 64}) {
          Tile<T> tile(keys, queries);
          for (index_t j = 0; j < keys; ++j)
            for (index_t i = 0; i < queries; ++i) {
              tile.at(j, i) = static_cast<T>(score(i, &engine));
              seen[static_cast<std::size_t>(i)].push_back(static_cast<double>(tile.at(j, i)));
            }
          tile.values.snapshot();
          std::vector<double> old_max;
          for (index_t i = 0; i < queries; ++i) old_max.push_back(static_cast<double>(rows.max[i]));
          table.softmax_update({tile.values.data(), tile.stride, keys, queries}, store,
                               rows.max.data(), rows.sum.data(),
                               with_rescale ? rows.rescale.data() : nullptr);

          for (index_t i = 0; i < queries; ++i) {
            SCOPED_TRACE(testing::Message() << "query " << i << " of " << queries << ", " << keys
                                            << " keys, store " << store);
            const std::vector<double>& scores = seen[static_cast<std::size_t>(i)];
            double max = -inf, sum = 0;
            for (const double s : scores) max = std::max(max, s);
            // It may be that of earlier keys.
            const double old = old_max[static_cast<std::size_t>(i)];
            if (max - old <= 32) max = old;
            const auto weight = [&](double s) { return max == -inf ? 0 : std::exp(s - max); };
            for (const double s : scores) sum += weight(s);
            ASSERT_EQ(static_cast<double>(rows.max[i]), max);
            // Differences from the maximum are rounded: 40 of them weigh e^-40 and no more.
            ASSERT_NEAR(static_cast<double>(rows.sum[i]), sum, 60 * epsilon * sum);
            if (with_rescale) {
              const double expected = old_max[static_cast<std::size_t>(i)] == -inf
                                          ? 0
                                          : weight(old_max[static_cast<std::size_t>(i)]);
              ASSERT_NEAR(
                  static_cast<double>(rows.rescale[i]), expected,
                  60 * epsilon * expected + static_cast<double>(std::numeric_limits<T>::min()) * 2);
            }
            for (index_t j = 0; store && j < keys; ++j) {
              const double s = scores[scores.size() - static_cast<std::size_t>(keys - j)];
              ASSERT_NEAR(static_cast<double>(tile.at(j, i)), weight(s),
                          60 * epsilon * weight(s) +
                              static_cast<double>(std::numeric_limits<T>::min()) * 2);
            }
          }
          if (store) {
            ASSERT_EQ(tile.damaged(), 0);
          } else {
            ASSERT_EQ(tile.values.damaged([](index_t) { return false; }), 0);
          }
          ASSERT_EQ(rows.damaged(), 0);
          if (!with_rescale) {
            ASSERT_EQ(rows.rescale.damaged([](index_t) { return false; }), 0);
          }
        }
      }
    }
  }
}

TEST_P(SoftmaxTest, KeepsMaximumAndSumOfAllKeys) {
  check(table<float>());
  check(table<double>());
}

// Wherever it comes from, a NaN reaches row_sum, stays there, and leaves other rows alone.
template <class T>
void check_nan(const KernelTable<T>& table) {
  const T infinity = std::numeric_limits<T>::infinity();
  const index_t queries = table.tile.cols + 2;
  for (const T poison : {std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::quiet_NaN(),
                         guard<T>(), infinity}) {
    for (index_t bad = 0; bad < queries; ++bad) {
      for (const index_t where : {0, 2, 3}) {  // first, within, last
        Rows<T> rows(queries);
        for (const int round : {0, 1, 2}) {
          Tile<T> tile(4, queries);
          for (index_t j = 0; j < 4; ++j)
            for (index_t i = 0; i < queries; ++i)
              tile.at(j, i) = i == bad && j == where && round == 1 ? poison : T(j + round);
          table.softmax_update({tile.values.data(), tile.stride, 4, queries}, true, rows.max.data(),
                               rows.sum.data(), rows.rescale.data());
          for (index_t i = 0; i < queries; ++i) {
            ASSERT_EQ(std::isnan(rows.sum[i]), i == bad && round >= 1)
                << "query " << i << ", round " << round << ", NaN in query " << bad << ", key "
                << where;
          }
        }
      }
    }
  }
}

TEST_P(SoftmaxTest, NanMakesItsRowNan) {
  check_nan(table<float>());
  check_nan(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(SoftmaxTest);

}  // namespace
}  // namespace ioattn_test
