#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace ioattn_test {

using ioattn::index_t;

// Kernels under test: those of every ISA that was built, and the odd tile of tests/schedules.
struct Implementation {
  std::string name;
  const ioattn::kernels::KernelTable<float>* f32;
  const ioattn::kernels::KernelTable<double>* f64;
  bool available;  // on this CPU

  template <class T>
  const ioattn::kernels::KernelTable<T>& table() const {
    if constexpr (sizeof(T) == 4) {
      return *f32;
    } else {
      return *f64;
    }
  }
};
const std::vector<Implementation>& implementations();
// And those whose products and softmax weights alone are others, for vectors that are taken by
// halves; these weights are those of CPUs with AMX, too.
const std::vector<Implementation>& variants();
std::ostream& operator<<(std::ostream& stream, const Implementation& implementation);

// The longest sweep takes one of so many of its cases: IOATTN_TEST_EVERY, for CPUs that are
// emulated, or 1, all of them.
index_t test_every();

// Runs once per implementation and says which; an ISA that the CPU lacks is reported as skipped, as
// failed if IOATTN_ISA asks for it.
class KernelTest : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (GetParam().available) return;
    const char* const wanted = std::getenv("IOATTN_ISA");
    if (wanted != nullptr && GetParam().name == wanted) FAIL() << "this CPU has no " << wanted;
    GTEST_SKIP() << "this CPU has no " << GetParam().name;
  }
  template <class T>
  const ioattn::kernels::KernelTable<T>& table() const {
    return GetParam().table<T>();
  }
};
#define IOATTN_FOR_EACH_OF(implementations, suite)                             \
  INSTANTIATE_TEST_SUITE_P(Kernels, suite, testing::ValuesIn(implementations), \
                           [](const auto& tested) { return std::string(tested.param.name); })
#define IOATTN_FOR_EACH_IMPLEMENTATION(suite) \
  IOATTN_FOR_EACH_OF(ioattn_test::implementations(), suite)
#define IOATTN_FOR_EACH_VARIANT(suite) IOATTN_FOR_EACH_OF(ioattn_test::variants(), suite)

// Not by std::memcmp(), which -O1 calls.
template <class T>
bool same_bits(T x, T y) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y);
}

// A NaN that arithmetic does not make: found unchanged, nobody has written it.
template <class T>
T guard() {
  return sizeof(T) == 4 ? static_cast<T>(__builtin_nanf("0x1234"))
                        : static_cast<T>(__builtin_nan("0x1234"));
}

// Memory in which every element that nobody has declared part of the result must keep its bits.
template <class T>
class Guarded {
 public:
  static constexpr index_t margin = 64;

  explicit Guarded(index_t size)
      : values_(static_cast<std::size_t>(size + 2 * margin), guard<T>()) {}

  T* data() { return values_.data() + margin; }
  T& operator[](index_t i) { return data()[i]; }
  void snapshot() { before_ = values_; }

  // The number of elements that differ from the snapshot and are not among those `written`.
  template <class Written>
  index_t damaged(Written written) const {
    index_t count = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!same_bits(values_[i], before_[i]) && !written(static_cast<index_t>(i) - margin)) ++count;
    }
    return count;
  }

 private:
  std::vector<T> values_, before_;
};

}  // namespace ioattn_test
