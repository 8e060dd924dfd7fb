// Against float64 on the rounded inputs: results in 16 bits are those of f32, rounded once; of
// pairs P and dS are rounded before, once.

#include <algorithm>

#include "api/half_arithmetic.hpp"
#include "api/half_errors.hpp"

namespace ioattn_test {
namespace {

double as_it_is(double x) { return x; }
double as_bf16(double x) { return double(number(element<ioattn_bf16>(float(x)))); }

// SDPA of one head, causal or not, by plain loops in double: P and dS, which others are multiplied
// by, are rounded as `rounded` says; gradients are from the O given, their own if that is empty.
struct Exact {
  std::vector<double> o, lse, dq, dk, dv;

  template <class Call>
  Exact(const Call& call, const std::vector<double>& given, double (*rounded)(double) = as_it_is) {
    const auto& p = call.problem;
    const std::vector<double> q = numbers(call.q), k = numbers(call.k), v = numbers(call.v),
                              d_o = numbers(call.d_o);
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
      const std::size_t seen = p.mask == IOATTN_MASK_CAUSAL_TOP_LEFT ? std::min(i + 1, m) : m;
      double sum = 0, delta = 0, largest = -HUGE_VAL;
      for (std::size_t j = 0; j < seen; ++j) {
        f[j] = 0;
        for (std::size_t l = 0; l < d; ++l) f[j] += scale * q[i * d + l] * k[j * d + l];
        largest = std::max(largest, f[j]);
      }
      for (std::size_t j = 0; j < seen; ++j) sum += f[j] = std::exp(f[j] - largest);
      lse[i] = largest + std::log(sum);
      for (std::size_t j = 0; j < seen; ++j) {
        f[j] /= sum;
        const double weight = rounded(f[j]);
        for (std::size_t l = 0; l < e; ++l) {
          o[i * e + l] += weight * v[j * e + l];
          dv[j * e + l] += weight * d_o[i * e + l];
        }
      }
      const std::vector<double>& of = given.empty() ? o : given;
      for (std::size_t l = 0; l < e; ++l) delta += d_o[i * e + l] * of[i * e + l];
      for (std::size_t j = 0; j < seen; ++j) {
        double product = 0;
        for (std::size_t l = 0; l < e; ++l) product += d_o[i * e + l] * v[j * e + l];
        const double weight = scale * rounded(f[j] * (product - delta));
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
    const Exact exact(call, numbers(call.o));
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

// Against the exact results, of the exact O: no more than where all is made in f32, but that P and
// dS are rounded once before they are multiplied, and so is every result.
TEST_F(PairAccuracy, IsThatOfRoundingFactorsAndResultsOnce) {
  constexpr double times = 1.05;
  for (const HalfSizes& sizes :
       {HalfSizes{1, 1, 1, 300, 257, 64, 64}, HalfSizes{1, 1, 1, 257, 300, 80, 48},
        HalfSizes{1, 1, 1, 1024, 1024, 64, 64}, HalfSizes{1, 1, 1, 1100, 1030, 40, 128}}) {
    for (const ioattn_mask mask : {IOATTN_MASK_NONE, IOATTN_MASK_CAUSAL_TOP_LEFT}) {
      HalfCall<ioattn_bf16> call(sizes, unsigned(sizes.n));
      call.problem.mask = mask;
      const Exact exact(call, {});
      const Exact forward(call, {}, as_bf16);
      std::vector<double> o;
      for (const double x : forward.o) o.push_back(as_bf16(x));
      const Exact model(call, o, as_bf16);
      const auto rounded = [](std::vector<double> numbers) {
        for (double& x : numbers) x = as_bf16(x);
        return numbers;
      };
      for (const ioattn::Isa isa : of_pairs()) {
        SCOPED_TRACE(testing::Message() << name_of(isa) << " n " << sizes.n << " mask " << mask);
        setenv("IOATTN_ISA", name_of(isa), 1);
        ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
        ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
        expect_as_near("O", times, call.o, rounded(model.o), exact.o);
        expect_as_near("dQ", times, call.dq, rounded(model.dq), exact.dq);
        expect_as_near("dK", times, call.dk, rounded(model.dk), exact.dk);
        expect_as_near("dV", times, call.dv, rounded(model.dv), exact.dv);
      }
    }
  }
}

}  // namespace
}  // namespace ioattn_test
