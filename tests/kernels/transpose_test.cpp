#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;

class TransposeTest : public KernelTest {};

template <class T>
void check(const KernelTable<T>& table) {
  for (index_t rows = 0; rows <= 35; ++rows) {
    for (const index_t cols : {0, 1, 3, 7, 8, 9, 16, 17, 33}) {
      for (const bool add : {false, true}) {
        const index_t from_stride = cols + 3, to_stride = rows + 2;
        const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
        std::vector<T> source(at(rows * from_stride + 1), guard<T>());
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j)
            source[at(i * from_stride + j)] = static_cast<T>(1 + 100 * i + j);
        Guarded<T> result(cols * to_stride);
        for (index_t j = 0; j < cols; ++j)
          for (index_t i = 0; i < rows; ++i) result.data()[j * to_stride + i] = static_cast<T>(j);
        result.snapshot();
        table.transpose(source.data(), from_stride, rows, cols, add, result.data(), to_stride);
        for (index_t j = 0; j < cols; ++j)
          for (index_t i = 0; i < rows; ++i)
            ASSERT_EQ(result[j * to_stride + i], static_cast<T>(1 + 100 * i + j + (add ? j : 0)))
                << rows << " x " << cols << " at " << i << " " << j;
        ASSERT_EQ(result.damaged([&](index_t k) {
          return k >= 0 && k < cols * to_stride && k % to_stride < rows;
        }),
                  0)
            << rows << " x " << cols;
      }
    }
  }
}

TEST_P(TransposeTest, MovesOrAddsEveryElement) {
  check(table<float>());
  check(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(TransposeTest);

}  // namespace
}  // namespace ioattn_test
