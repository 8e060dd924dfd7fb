
#include "kernels/implementations.hpp"

namespace ioattn_test {
namespace {

using ioattn::kernels::KernelTable;

class PackTest : public KernelTest {};

template <class T>
void check(const KernelTable<T>& table) {
  const index_t nr = table.tile.cols;
  for (index_t lanes = 1; lanes <= 3 * nr + 1; ++lanes) {
    for (const index_t depth : {0, 1, 2, 3, 17}) {
      for (const bool lanes_adjacent : {true, false}) {
        for (const index_t gap : {0, 3}) {
          const index_t lane_stride = lanes_adjacent ? 1 : depth + gap;
          const index_t depth_stride = lanes_adjacent ? lanes + gap : 1;
          const auto index = [&](index_t j, index_t q) {
            return static_cast<std::size_t>(j * lane_stride + q * depth_stride);
          };
          std::vector<T> source(depth == 0 ? 0 : index(lanes - 1, depth - 1) + 1, guard<T>());
          for (index_t j = 0; j < lanes; ++j)
            for (index_t q = 0; q < depth; ++q)
              source[index(j, q)] = static_cast<T>(1 + j * 100 + q);

          const index_t panels = (lanes + nr - 1) / nr;
          Guarded<T> packed(panels * depth * nr);
          packed.snapshot();
          table.pack(source.data(), lane_stride, depth_stride, lanes, depth, packed.data());
          for (index_t j = 0; j < panels * nr; ++j)
            for (index_t q = 0; q < depth; ++q) {
              const T expected = j < lanes ? static_cast<T>(1 + j * 100 + q) : T(0);
              ASSERT_TRUE(same_bits(packed[j / nr * depth * nr + q * nr + j % nr], expected))
                  << "lane " << j << " of " << lanes << ", row " << q << " of " << depth
                  << (lanes_adjacent ? ", lanes adjacent" : ", rows adjacent");
            }
          ASSERT_EQ(packed.damaged([&](index_t k) { return k >= 0 && k < panels * depth * nr; }), 0)
              << lanes << " x " << depth;
        }
      }
    }
  }
}

TEST_P(PackTest, CopiesAndFillsUpWithZeros) {
  check(table<float>());
  check(table<double>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(PackTest);

}  // namespace
}  // namespace ioattn_test
