// Elementwise kernels on score tiles, and dot products: exact where the numbers allow it, and
// nothing beside the tile is touched.

#include <algorithm>
#include <cmath>

#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;
using ioattn::kernels::ScoreTile;

class TilesTest : public KernelTest {};

// A tile and its surroundings; the columns between `queries` and the stride are not its own.
template <class T>
class GuardedTile {
 public:
  GuardedTile(index_t keys, index_t queries, index_t gap)
      : keys_(keys), queries_(queries), stride_(queries + gap), memory_(keys * stride_) {
    memory_.snapshot();
  }
  template <class Value>
  GuardedTile& fill(Value value) {
    for (index_t j = 0; j < keys_; ++j)
      for (index_t i = 0; i < queries_; ++i) at(j, i) = static_cast<T>(value(j, i));
    memory_.snapshot();
    return *this;
  }
  T& at(index_t j, index_t i) { return memory_[j * stride_ + i]; }
  ScoreTile<T> tile() { return {memory_.data(), stride_, keys_, queries_}; }
  index_t damaged() const {
    return memory_.damaged(
        [this](index_t k) { return k >= 0 && k < keys_ * stride_ && k % stride_ < queries_; });
  }
  index_t changed() const {
    return memory_.damaged([](index_t) { return false; });
  }

 private:
  index_t keys_, queries_, stride_;
  Guarded<T> memory_;
};

// One value per query, guarded.
template <class T>
class GuardedVector {
 public:
  template <class Value>
  GuardedVector(index_t size, Value value) : size_(size), memory_(size) {
    for (index_t i = 0; i < size; ++i) memory_[i] = static_cast<T>(value(i));
    memory_.snapshot();
  }
  T& operator[](index_t i) { return memory_[i]; }
  T* data() { return memory_.data(); }
  index_t damaged() const {
    return memory_.damaged([this](index_t k) { return k >= 0 && k < size_; });
  }
  index_t changed() const {
    return memory_.damaged([](index_t) { return false; });
  }

 private:
  index_t size_;
  Guarded<T> memory_;
};

// Integers that are the same function of their place in every test.
index_t mixed(index_t j, index_t i, index_t range) {
  return (j * 37 + i * 101 + j * i) % (2 * range + 1) - range;
}

template <class Check>
void for_each_size(int nr, std::initializer_list<index_t> all_keys, Check check) {
  for (const index_t keys : all_keys)
    for (index_t queries = 1; queries <= 2 * nr + 3; ++queries)
      for (const index_t gap : {0, 1, 5}) {
        SCOPED_TRACE(testing::Message()
                     << keys << " keys x " << queries << " queries, gap " << gap);
        check(keys, queries, gap);
        if (testing::Test::HasFailure()) return;
      }
}

template <class T>
void check_exp(const KernelTable<T>& table) {
  for_each_size(table.tile.cols, {0, 1, 2, 7}, [&](index_t keys, index_t queries, index_t gap) {
    GuardedTile<T> scores(keys, queries, gap);
    scores.fill([](index_t j, index_t i) { return static_cast<double>(mixed(j, i, 50)) / 8; });
    GuardedVector<T> lse(queries, [](index_t i) { return static_cast<double>(i % 9) / 4; });
    table.exp_tile(scores.tile(), lse.data());
    for (index_t j = 0; j < keys; ++j)
      for (index_t i = 0; i < queries; ++i) {
        const double exponent =
            static_cast<double>(mixed(j, i, 50)) / 8 - static_cast<double>(lse[i]);
        const double expected = std::exp(std::min(exponent, 0.0));
        constexpr double ulp = std::numeric_limits<T>::epsilon();
        ASSERT_NEAR(static_cast<double>(scores.at(j, i)), expected, 2 * ulp * expected);
      }
    ASSERT_EQ(scores.damaged(), 0);
    ASSERT_EQ(lse.changed(), 0);
  });
}

TEST_P(TilesTest, ExpSubtractsTheLse) {
  check_exp(table<float>());
  check_exp(table<double>());
}

template <class T>
void check_gradient(const KernelTable<T>& table) {
  for_each_size(table.tile.cols, {0, 1, 2, 7}, [&](index_t keys, index_t queries, index_t gap) {
    for (const int target : {0, 1, 2}) {  // p apart, in f, in q
      GuardedTile<T> f(keys, queries, gap), q(keys, queries, gap + 1), p(keys, queries, gap + 2);
      const auto f_value = [](index_t j, index_t i) { return mixed(j, i, 20); };
      const auto q_value = [](index_t j, index_t i) { return mixed(i, j, 30); };
      f.fill(f_value);
      q.fill(q_value);
      GuardedVector<T> delta(queries, [](index_t i) { return i % 11 - 5; });
      GuardedTile<T>& result = target == 0 ? p : target == 1 ? f : q;
      table.gradient_tile(f.tile(), q.tile(), delta.data(), result.tile());
      for (index_t j = 0; j < keys; ++j)
        for (index_t i = 0; i < queries; ++i)
          ASSERT_EQ(static_cast<double>(result.at(j, i)),
                    static_cast<double>(f_value(j, i) * (q_value(j, i) - (i % 11 - 5))))
              << "key " << j << ", query " << i;
      ASSERT_EQ(result.damaged(), 0);
      if (target != 1) {
        ASSERT_EQ(f.changed(), 0);
      }
      if (target != 2) {
        ASSERT_EQ(q.changed(), 0);
      }
      ASSERT_EQ(delta.changed(), 0);
    }
  });
}

TEST_P(TilesTest, GradientIsExactAlsoInPlace) {
  check_gradient(table<float>());
  check_gradient(table<double>());
}

template <class T>
void check_dot(const KernelTable<T>& table) {
  for_each_size(table.tile.cols, {0, 1, 7, 256, 257, 600},
                [&](index_t keys, index_t queries, index_t gap) {
                  if (keys > 7 && queries % 3 != 1) return;
                  GuardedTile<T> f(keys, queries, gap), q(keys, queries, gap + 1);
                  f.fill([](index_t j, index_t i) { return mixed(j, i, 20); });
                  q.fill([](index_t j, index_t i) { return mixed(i, j, 30); });
                  GuardedVector<T> sum(queries, [](index_t i) { return i % 13 - 6; });
                  table.dot_tile(f.tile(), q.tile(), sum.data());
                  for (index_t i = 0; i < queries; ++i) {
                    index_t expected = i % 13 - 6;
                    for (index_t j = 0; j < keys; ++j)
                      expected += mixed(j, i, 20) * mixed(i, j, 30);
                    ASSERT_EQ(static_cast<double>(sum[i]), static_cast<double>(expected)) << i;
                  }
                  ASSERT_EQ(sum.damaged(), 0);
                  ASSERT_EQ(f.changed(), 0);
                  ASSERT_EQ(q.changed(), 0);
                });
}

TEST_P(TilesTest, DotAddsToTheSum) {
  check_dot(table<float>());
  check_dot(table<double>());
}

template <class T>
void check_row_dot(const KernelTable<T>& table) {
  for (const index_t rows : {0, 1, 5}) {
    for (index_t cols = 0; cols <= 600; cols = cols < 70 ? cols + 1 : cols * 5 / 4) {
      for (const index_t gap : {0, 3}) {
        GuardedTile<T> x(rows, cols, gap), y(rows, cols, gap + 1);
        x.fill([](index_t i, index_t k) { return mixed(i, k, 20); });
        y.fill([](index_t i, index_t k) { return mixed(k, i, 30); });
        GuardedVector<T> out(rows, [](index_t) { return guard<T>(); });
        table.row_dot(rows, cols, x.tile().data, x.tile().stride, y.tile().data, y.tile().stride,
                      out.data());
        for (index_t i = 0; i < rows; ++i) {
          index_t expected = 0;
          for (index_t k = 0; k < cols; ++k) expected += mixed(i, k, 20) * mixed(k, i, 30);
          ASSERT_EQ(static_cast<double>(out[i]), static_cast<double>(expected))
              << "row " << i << " of " << rows << ", " << cols << " columns";
        }
        ASSERT_EQ(out.damaged(), 0);
        ASSERT_EQ(x.changed() + y.changed(), 0);
      }
    }
  }
}

// One factor of all rows or one of each, to other memory and in place.
template <class T>
void check_scale_rows(const KernelTable<T>& table) {
  for (const index_t rows : {0, 1, 5, 9}) {
    for (index_t cols = 0; cols <= 2 * table.tile.cols + 1; ++cols) {
      for (const index_t step : {0, 1}) {
        GuardedTile<T> x(rows, cols, 3), y(rows, cols, 1);
        x.fill([](index_t i, index_t k) { return mixed(i, k, 20); });
        y.fill([](index_t, index_t) { return 7; });
        GuardedVector<T> factors(9, [](index_t i) { return T(i) - T(2.5); });
        const auto expect = [&](const ioattn::kernels::ScoreTile<T>& tile) {
          for (index_t i = 0; i < rows; ++i)
            for (index_t k = 0; k < cols; ++k)
              ASSERT_EQ(tile.data[i * tile.stride + k], factors[i * step] * T(mixed(i, k, 20)))
                  << i << "," << k << " of " << rows << " x " << cols;
        };
        table.scale_rows(rows, cols, factors.data(), step, x.tile().data, x.tile().stride,
                         y.tile().data, y.tile().stride);
        ASSERT_EQ(x.changed() + y.damaged(), 0);
        ASSERT_NO_FATAL_FAILURE(expect(y.tile()));
        table.scale_rows(rows, cols, factors.data(), step, x.tile().data, x.tile().stride,
                         x.tile().data, x.tile().stride);
        ASSERT_EQ(x.damaged(), 0);
        ASSERT_NO_FATAL_FAILURE(expect(x.tile()));
      }
    }
  }
}

// Wherever it is, one number that is not finite is found, and what lies beside the rows is not.
template <class T>
void check_finite(const KernelTable<T>& table) {
  using Limits = std::numeric_limits<T>;
  const T odd[] = {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                   Limits::infinity(), -Limits::infinity()};
  for (const index_t rows : {0, 1, 3, 4, 5, 9}) {
    for (index_t cols = 0; cols <= 2 * table.tile.cols + 1; ++cols) {
      const index_t stride = cols + 3;
      std::vector<T> x(std::size_t((rows + 1) * stride), Limits::quiet_NaN());
      for (index_t i = 0; i < rows; ++i)
        for (index_t k = 0; k < cols; ++k) {
          const T finite[] = {Limits::max(), Limits::lowest(), Limits::denorm_min(), T(0), T(-1)};
          x[std::size_t(i * stride + k)] = finite[(i + k) % 5];
        }
      ASSERT_TRUE(table.are_finite(rows, cols, x.data(), stride)) << rows << " x " << cols;
      for (index_t at = 0; at < rows * cols; ++at) {
        T& element = x[std::size_t(at / cols * stride + at % cols)];
        const T finite = element;
        element = odd[at % 5];
        ASSERT_FALSE(table.are_finite(rows, cols, x.data(), stride))
            << rows << " x " << cols << " at " << at;
        element = finite;
      }
    }
  }
}

TEST_P(TilesTest, OneNumberThatIsNotFiniteIsFound) {
  check_finite(table<float>());
  check_finite(table<double>());
}

TEST_P(TilesTest, RowDotIsExact) {
  check_row_dot(table<float>());
  check_row_dot(table<double>());
}

TEST_P(TilesTest, RowsAreScaled) {
  check_scale_rows(table<float>());
  check_scale_rows(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(TilesTest);

}  // namespace
}  // namespace ioattn_test
