// Against float64 on the rounded inputs: results in 16 bits are those of f32, rounded once; of
// pairs P and dS are rounded before, once.

#include <algorithm>
#include <cstdio>

#include "api/half_arithmetic.hpp"
#include "api/half_errors.hpp"

namespace ioattn_test {
namespace {

// SDPA of one head by plain loops in double; gradients from the O that the backward pass is given.
struct Exact {
  std::vector<double> o, lse, dq, dk, dv;

  template <class Call>
  explicit Exact(const Call& call) {
    const auto& p = call.problem;
    const std::vector<double> q = numbers(call.q), k = numbers(call.k), v = numbers(call.v),
                              d_o = numbers(call.d_o), given = numbers(call.o);
    const auto n = std::size_t(p.n), m = std::size_t(p.m), d = std::size_t(p.d),
               e = std::size_t(p.dv);
    const double scale = 1 / std::sqrt(double(d));
    o.resize(n * e);
    lse.resize(n);
    dq.resize(n * d);
    dk.resize(m * d);
    dv.resize(m * e);
    std::vector<double> f(m);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0, delta = 0, largest = -HUGE_VAL;
      for (std::size_t j = 0; j < m; ++j) {
        f[j] = 0;
        for (std::size_t l = 0; l < d; ++l) f[j] += scale * q[i * d + l] * k[j * d + l];
        largest = std::max(largest, f[j]);
      }
      for (double& x : f) sum += x = std::exp(x - largest);
      lse[i] = largest + std::log(sum);
      for (std::size_t l = 0; l < e; ++l) delta += d_o[i * e + l] * given[i * e + l];
      for (std::size_t j = 0; j < m; ++j) {
        f[j] /= sum;
        double product = 0;
        for (std::size_t l = 0; l < e; ++l) {
          o[i * e + l] += f[j] * v[j * e + l];
          dv[j * e + l] += f[j] * d_o[i * e + l];
          product += d_o[i * e + l] * v[j * e + l];
        }
        const double weight = scale * f[j] * (product - delta);
        for (std::size_t l = 0; l < d; ++l) {
          dq[i * d + l] += weight * k[j * d + l];
          dk[j * d + l] += weight * q[i * d + l];
        }
      }
    }
  }
};

template <class Type>
class HalfAccuracy : public HalfTest<Type> {};
using Types = testing::Types<Arithmetic<ioattn_bf16, false>, Arithmetic<ioattn_f16, false>,
                             Arithmetic<ioattn_bf16, true>, Arithmetic<ioattn_bf16, true, true>>;
TYPED_TEST_SUITE(HalfAccuracy, Types);

TYPED_TEST(HalfAccuracy, IsThatOfRoundingOnce) {
  using S = typename TypeParam::S;
  const double times = TypeParam::pairs ? 1.5 : 1.05;
  const double in_f32 = TypeParam::pairs ? 1.0 / 256 : 4e-6;
  unsigned seed = 0;
  for (const HalfSizes& sizes :
       {HalfSizes{1, 1, 1, 64, 96, 16, 24}, HalfSizes{1, 1, 1, 300, 257, 64, 64},
        HalfSizes{1, 1, 1, 129, 640, 128, 80}, HalfSizes{1, 1, 1, 70, 60, 512, 600}}) {
    SCOPED_TRACE(sizes.d);
    HalfCall<S> call(sizes, ++seed);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    const Exact exact(call);
    expect_rounded("O", times, call.o, exact.o);
    expect_rounded("dQ", times, call.dq, exact.dq);
    expect_rounded("dK", times, call.dk, exact.dk);
    expect_rounded("dV", times, call.dv, exact.dv);
    EXPECT_LE(distance(numbers(call.lse), exact.lse), 1e-6);

    // In f32 nothing is rounded at all.
    HalfCall<S, float> wide(sizes, seed);
    ASSERT_EQ(wide.forward(), IOATTN_OK);
    ASSERT_EQ(wide.backward(), IOATTN_OK) << ioattn_last_error();
    EXPECT_LE(distance(numbers(wide.dq), exact.dq), in_f32);
    EXPECT_LE(distance(numbers(wide.dk), exact.dk), in_f32);
    EXPECT_LE(distance(numbers(wide.dv), exact.dv), in_f32);
  }
}

}  // namespace
}  // namespace ioattn_test
