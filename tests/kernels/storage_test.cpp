// 16-bit storage: every number becomes the float that it is, every float the nearest number of 16
// bits, whatever the floating-point environment; nothing beside the operands is touched.

#include <cfenv>
#include <cmath>
#include <cstring>

#include "base/half.hpp"
#include "kernels/guarded_pages.hpp"
#include "kernels/implementations.hpp"
#include "kernels/product_order.hpp"

namespace ioattn_test {
namespace {

using ioattn::bf16;
using ioattn::f16;
using ioattn::kernels::KernelTable;

class StorageTest : public KernelTest {};

// What the bits mean, by the definition of the formats.
template <class S>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int fraction = 7, bias = 127;
};
template <>
struct Format<f16> {
  static constexpr int fraction = 10, bias = 15;
};
template <class S>
constexpr unsigned infinity = 0x8000u - (1u << Format<S>::fraction);

// Of the bits without their sign, of a finite number or of what infinity would be as one.
template <class S>
double magnitude(unsigned bits) {
  const int fraction = Format<S>::fraction, exponent = int(bits >> fraction);
  const unsigned mantissa = bits & ((1u << fraction) - 1);
  const double implicit = exponent == 0 ? 0 : double(1u << fraction);
  return std::ldexp(implicit + mantissa, std::max(exponent, 1) - Format<S>::bias - fraction);
}

template <class T>
std::uint32_t bits_of(T x) {
  std::uint32_t bits = 0;
  static_assert(sizeof x <= sizeof bits);
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}
float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

template <class S>
std::uint32_t widened(unsigned bits) {
  const unsigned rest = bits & 0x7fffu;
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  if (rest > infinity<S>) {  // the payload at the top, and quiet
    return sign | 0x7fc00000u | (rest - infinity<S>) << (23 - Format<S>::fraction);
  }
  if (rest == infinity<S>) return sign | 0x7f800000u;
  return sign | bits_of(float(magnitude<S>(rest)));
}

// Environments in which other conversions would round elsewhere, or lose denormals.
class Environment {
 public:
  explicit Environment(int number) {
    std::fegetenv(&saved_);
    if (number == 1) std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    if (number == 2) __builtin_ia32_ldmxcsr(0x1f80u | 0x8040u | 0x2000u);  // flushing, downward
#endif
  }
  ~Environment() { std::fesetenv(&saved_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::fenv_t saved_;
};

// Rows of 61, for whole vectors and what is left of them.
constexpr index_t cols = 61;
index_t rows_for(std::size_t count) { return (index_t(count) + cols - 1) / cols; }

constexpr float one = 1;

template <class S>
void check_widening(const KernelTable<float>& table) {
  std::vector<S> all(std::size_t(rows_for(1u << 16) * cols));
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = std::uint16_t(i);
  for (int environment = 0; environment < 3; ++environment) {
    std::vector<float> floats(all.size());
    std::vector<S> back(all.size());
    {
      const Environment other(environment);
      table.storage<S>().widen(all.data(), cols, rows_for(1u << 16), cols, floats.data(), cols);
      table.storage<S>().narrow(floats.data(), cols, rows_for(1u << 16), cols, &one, 0, back.data(),
                                cols);
    }
    for (unsigned bits = 0; bits < 1u << 16; ++bits) {
      ASSERT_EQ(bits_of(floats[bits]), widened<S>(bits)) << bits << " in " << environment;
      const bool nan = (bits & 0x7fffu) > infinity<S>;
      ASSERT_EQ(back[bits].bits, nan ? bits | 1u << (Format<S>::fraction - 1) : bits);
    }
  }
}

// Every number, every midpoint of neighbours, and the floats beside them.
template <class S>
void check_rounding(const KernelTable<float>& table) {
  std::vector<float> floats;
  std::vector<std::uint16_t> expected;
  const auto add = [&](float x, unsigned rest) {
    for (const unsigned sign : {0u, 0x8000u}) {
      floats.push_back(sign == 0 ? x : -x);
      expected.push_back(std::uint16_t(sign | rest));
    }
  };
  for (unsigned rest = 0; rest < infinity<S>; ++rest) {
    const double low = magnitude<S>(rest), high = magnitude<S>(rest + 1);
    const double middle = (low + high) / 2;
    add(float(low), rest);
    // Half the smallest denormal of bf16 is a float, what lies between is not.
    ASSERT_EQ(double(float(middle)), middle);
    add(float(middle), rest + rest % 2);
    add(std::nextafter(float(middle), 0.0F), rest);
    if (middle < 3e38) add(std::nextafter(float(middle), HUGE_VALF), rest + 1);
  }
  add(std::nextafter(float_of(0x7f800000u), 0.0F), infinity<S>);
  add(HUGE_VALF, infinity<S>);
  add(float_of(1), 0);
  // NaN: quiet, with the upper bits of the payload.
  const int shift = 23 - Format<S>::fraction;
  for (const std::uint32_t payload :
       {1u, 0x1fffu, 0x2000u, 0x10000u, 0x155555u, 0x400000u, 0x7fffffu}) {
    add(float_of(0x7f800000u | payload),
        infinity<S> | 1u << (Format<S>::fraction - 1) | payload >> shift);
  }
  while (floats.size() % cols != 0) add(1.0F, unsigned(Format<S>::bias) << Format<S>::fraction);
  for (int environment = 0; environment < 3; ++environment) {
    std::vector<S> rounded(floats.size());
    {
      const Environment other(environment);
      table.storage<S>().narrow(floats.data(), cols, rows_for(floats.size()), cols, &one, 0,
                                rounded.data(), cols);
    }
    for (std::size_t i = 0; i < floats.size(); ++i)
      ASSERT_EQ(rounded[i].bits, expected[i]) << bits_of(floats[i]) << " in " << environment;
  }
}

// The product is rounded to f32, and then to 16 bits.
template <class S>
void check_scaling(const KernelTable<float>& table) {
  std::vector<float> floats;
  for (int i = 0; i < 8 * cols; ++i) floats.push_back(float(i - 4 * cols) / 7);
  const float factors[] = {0.125F, -3.1F, 1, 0.3F, 7, 1, -0.0F, 2};
  for (const index_t step : {0, 1}) {  // one of all rows, or one of each
    for (const index_t first : {0, 1}) {
      std::vector<S> rounded(floats.size());
      table.storage<S>().narrow(floats.data(), cols, 8 - first, cols, factors + first, step,
                                rounded.data(), cols);
      for (index_t i = 0; i < (8 - first) * cols; ++i) {
        const float factor = factors[first + step * (i / cols)];
        const std::size_t at = std::size_t(i);
        ASSERT_EQ(rounded[at].bits, ioattn::from_float<S>(factor * floats[at]).bits)
            << i << ", " << factor;
      }
    }
  }
}

// Both layouts, whole panels and parts of them, in more terms than are converted at once.
template <class S>
void check_packing(const KernelTable<float>& table) {
  const index_t nr = table.tile.cols;
  for (index_t lanes = 1; lanes <= 2 * nr + 1; ++lanes) {
    for (const index_t depth : {0, 1, 9, 64, 133}) {
      for (const index_t lane_stride : {index_t(1), depth + 2}) {
        const index_t depth_stride = lane_stride == 1 ? lanes + 2 : 1;
        const index_t size =
            depth == 0 ? 0 : (lanes - 1) * lane_stride + (depth - 1) * depth_stride + 1;
        std::vector<S> source(static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < source.size(); ++i) source[i].bits = std::uint16_t(40 * i + 1);
        const index_t panels = (lanes + nr - 1) / nr;
        for (const Side side : sides) {
          GuardedPages in(source.size() * sizeof(S));
          GuardedPages out(std::size_t(panels * depth * nr) * sizeof(float));
          const S* from = in.place(source.data(), size, side);
          float* packed = out.place<float>(panels * depth * nr, side);
          running = {"pack of 16 bits", {lanes, depth, lane_stride}};
          table.storage<S>().pack(from, lane_stride, depth_stride, lanes, depth, packed);
          for (index_t j = 0; j < panels * nr; ++j)
            for (index_t q = 0; q < depth; ++q) {
              const auto at = std::size_t(j * lane_stride + q * depth_stride);
              ASSERT_EQ(bits_of(packed[j / nr * depth * nr + q * nr + j % nr]),
                        j < lanes ? widened<S>(source[at].bits) : 0u)
                  << "lane " << j << " of " << lanes << ", term " << q << " of " << depth;
            }
        }
      }
    }
  }
}

template <class S>
void check_bounds(const KernelTable<float>& table) {
  for (index_t count = 0; count <= 40; ++count) {
    for (const Side side : sides) {
      GuardedPages narrow(std::size_t(2 * count) * sizeof(S)),
          wide(std::size_t(2 * count) * sizeof(float));
      S* const s = narrow.place<S>(2 * count, side);
      float* const f = wide.place<float>(2 * count, side);
      for (index_t i = 0; i < 2 * count; ++i) s[i].bits = std::uint16_t(0x3c00 + i);
      running = {"rows of 16 bits", {count}};
      table.storage<S>().widen(s, count, 2, count, f, count);
      table.storage<S>().narrow(f, count, 2, count, &one, 0, s, count);
      for (index_t i = 0; i < 2 * count; ++i) ASSERT_EQ(s[i].bits, 0x3c00 + i);
    }
  }
}

// Of integers, whose sums are exact in any order.
template <class S>
void check_row_products(const KernelTable<float>& table) {
  constexpr index_t rows = 3;
  std::vector<index_t> counts = {517, 1024, 2085};
  for (index_t count = 0; count <= 100; ++count) counts.push_back(count);
  for (const index_t count : counts) {
    const index_t stride = count + 3;
    const index_t size = (rows - 1) * stride + count;
    std::vector<S> x, y;
    for (index_t i = 0; i < size; ++i) {
      x.push_back(ioattn::from_float<S>(float(i % 7 - 3)));
      y.push_back(ioattn::from_float<S>(float(i % 5 - 1)));
    }
    for (const Side side : sides) {
      GuardedPages left(x.size() * sizeof(S)), right(y.size() * sizeof(S));
      float sums[rows] = {1, -2, 3};
      running = {"row products of 16 bits", {count}};
      table.storage<S>().row_dot(rows, count, left.place(x.data(), size, side), stride,
                                 right.place(y.data(), size, side), stride, sums);
      for (index_t i = 0; i < rows; ++i) {
        float expected = 0;
        for (index_t k = 0; k < count; ++k)
          expected += float((i * stride + k) % 7 - 3) * float((i * stride + k) % 5 - 1);
        ASSERT_EQ(sums[i], expected) << "row " << i << " of " << count;
      }
    }
  }
}

template <class S>
void check_bits_of_row_products(const KernelTable<float>& table) {
  for (const index_t count : {1, 7, 40, 64, 100, 300, 2085}) {
    std::vector<S> x, y;
    std::vector<float> wide_x, wide_y;
    for (index_t k = 0; k < count; ++k) {
      x.push_back(ioattn::from_float<S>(1 / float(k % 17 + 3)));
      y.push_back(ioattn::from_float<S>(1 / (float(k % 29) - 14.5F)));
      wide_x.push_back(ioattn::to_float(x.back()));
      wide_y.push_back(ioattn::to_float(y.back()));
    }
    float sum = 0, expected = 0;
    table.storage<S>().row_dot(1, count, x.data(), count, y.data(), count, &sum);
    table.row_dot(1, count, wide_x.data(), count, wide_y.data(), count, &expected);
    EXPECT_EQ(bits_of(sum), bits_of(expected)) << count;
  }
}

// Equal terms are rounded to one side for as long as their sum has one exponent.
template <class S>
void check_long_row_products(const KernelTable<float>& table) {
  constexpr index_t count = 4096;
  const std::vector<S> x(count, ioattn::from_float<S>(1.1F)), y(count, ioattn::from_float<S>(0.7F));
  const double expected = double(count) * ioattn::to_float(x[0]) * ioattn::to_float(y[0]);
  float sum = 0;
  table.storage<S>().row_dot(1, count, x.data(), count, y.data(), count, &sum);
  constexpr index_t terms = ioattn::terms_per_accumulator;
  constexpr index_t chains = 4, most_lanes = 16;
  constexpr double roundings = terms / chains + count / terms + most_lanes + 2;
  EXPECT_LE(std::abs(sum - expected), roundings * 0x1p-24 * expected);
}

TEST_P(StorageTest, EveryNumberBecomesTheFloatThatItIs) {
  check_widening<bf16>(table<float>());
  check_widening<f16>(table<float>());
}

TEST_P(StorageTest, FloatsAreRoundedToNearestEven) {
  check_rounding<bf16>(table<float>());
  check_scaling<bf16>(table<float>());
  check_rounding<f16>(table<float>());
  check_scaling<f16>(table<float>());
}

TEST_P(StorageTest, PanelsAreThoseOfTheFloats) {
  const FaultsAreTold told;
  check_packing<bf16>(table<float>());
  check_packing<f16>(table<float>());
}

TEST_P(StorageTest, NothingBesideTheRowsIsTouched) {
  const FaultsAreTold told;
  check_bounds<bf16>(table<float>());
  check_bounds<f16>(table<float>());
}

TEST_P(StorageTest, RowProductsAreThoseOfTheFloats) {
  const FaultsAreTold told;
  check_row_products<bf16>(table<float>());
  check_row_products<f16>(table<float>());
}

TEST_P(StorageTest, RowProductsHaveTheBitsOfThoseOfFloats) {
  check_bits_of_row_products<bf16>(table<float>());
  check_bits_of_row_products<f16>(table<float>());
}

TEST_P(StorageTest, LongRowProductsAreSumsOfSums) {
  check_long_row_products<bf16>(table<float>());
  check_long_row_products<f16>(table<float>());
}

IOATTN_FOR_EACH_IMPLEMENTATION(StorageTest);

}  // namespace
}  // namespace ioattn_test
