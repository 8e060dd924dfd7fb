// Errors of SDPA in 16 bits on seeded problems: forward and backward as planned, on every
// instruction set of this CPU and the emulated ones, at most twice those of the textbook's products
// in the same type. It is the rule that FlashAttention's tests hold kernels to.

#include <array>
#include <cmath>
#include <iostream>

#include "plan/sdpa/sdpa_planner.hpp"
#include "reference/sdpa_oracle.hpp"
#include "schedules/pairs_case.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

constexpr const char* output_names[] = {"O", "dQ", "dK", "dV"};
using Errors = std::array<double, std::size(output_names)>;

template <class A>
ref::Tensor<double> dense(const GapTensor<A>& tensor, index_t batch, index_t heads, index_t rows,
                          index_t cols) {
  const auto size = [](index_t x) { return std::size_t(x); };
  ref::Tensor<double> to(size(batch), size(heads), size(rows), size(cols));
  for (std::size_t i = 0; i < to.values.size(); ++i) {
    const std::size_t row = i / to.cols, col = i % to.cols;
    to.values[i] = double(to_compute(tensor.values()[row * (to.cols + 3) + col]));
  }
  return to;
}

template <class S>
ref::SdpaInputs<double> inputs_of(const HalfCase<S>& half) {
  const SdpaShape& s = half.shape;
  ref::SdpaInputs<double> in;
  in.Q = dense(half.q, s.batch, s.heads, s.n, s.d);
  in.K = dense(half.k, s.batch, s.kv_heads, s.m, s.d);
  in.V = dense(half.v, s.batch, s.kv_heads, s.m, s.dv);
  in.dO = dense(half.d_o, s.batch, s.heads, s.n, s.dv);
  in.scale = double(half.scale);
  if (s.mask.first > -Mask::unbounded) in.first_key = s.mask.first;
  if (s.mask.last < Mask::unbounded) in.last_key = s.mask.last;
  return in;
}

// O, dQ, dK, dV.
using Outputs = std::array<ref::Tensor<double>, std::size(output_names)>;

template <class S>
Outputs outputs_of(const HalfCase<S>& half) {
  const SdpaShape& s = half.shape;
  return {dense(half.o, s.batch, s.heads, s.n, s.dv), dense(half.dq, s.batch, s.heads, s.n, s.d),
          dense(half.dk, s.batch, s.kv_heads, s.m, s.d),
          dense(half.dv, s.batch, s.kv_heads, s.m, s.dv)};
}

// Matrix by matrix, each of which is summed in f32 and stored in 16 bits: O too, of which delta is.
template <class S>
Outputs textbook(const ref::SdpaInputs<double>& wide) {
  const auto rounded = [](float x) { return to_float(from_float<S>(x)); };
  const ref::SdpaInputs<float> in = ref::convert<float>(wide);
  const auto scale = float(in.scale);
  const std::size_t n = in.Q.rows, m = in.K.rows, d = in.Q.cols, e = in.V.cols;
  const std::size_t group = in.Q.heads / in.K.heads;
  ref::Tensor<float> o(in.Q.batch, in.Q.heads, n, e), dq(in.Q.batch, in.Q.heads, n, d),
      dk(in.K.batch, in.K.heads, m, d), dv(in.K.batch, in.K.heads, m, e);
  std::vector<float> f(m), dp(m);
  for (std::size_t row = 0; row < in.Q.batch * in.Q.heads * n; ++row) {
    const std::size_t head = row / n, i = row % n;
    const std::size_t keys = head / group * m;
    const float *q = &in.Q.values[row * d], *d_o = &in.dO.values[row * e];
    const auto dot = [](const float* a, const float* b, std::size_t count) {
      float sum = 0;
      for (std::size_t l = 0; l < count; ++l) sum += a[l] * b[l];
      return sum;
    };
    const auto add = [](float weight, const float* from, std::size_t count, float* to) {
      for (std::size_t l = 0; l < count; ++l) to[l] += weight * from[l];
    };
    float largest = -HUGE_VALF, sum = 0;
    for (std::size_t j = 0; j < m; ++j) {
      f[j] = in.sees(i, j) ? rounded(scale * dot(q, &in.K.values[(keys + j) * d], d)) : -HUGE_VALF;
      largest = std::max(largest, f[j]);
    }
    if (largest == -HUGE_VALF) continue;
    for (float& x : f) sum += x = std::exp(x - largest);
    for (std::size_t j = 0; j < m; ++j) {
      f[j] = rounded(f[j] / sum);
      const float* v = &in.V.values[(keys + j) * e];
      dp[j] = rounded(dot(d_o, v, e));
      add(f[j], v, e, &o.values[row * e]);
      add(f[j], d_o, e, &dv.values[(keys + j) * e]);
    }
    float* const o_row = &o.values[row * e];
    for (std::size_t l = 0; l < e; ++l) o_row[l] = rounded(o_row[l]);
    const float delta = dot(d_o, o_row, e);
    for (std::size_t j = 0; j < m; ++j) {
      const float ds = scale * rounded(f[j] * (dp[j] - delta));
      add(ds, &in.K.values[(keys + j) * d], d, &dq.values[row * d]);
      add(ds, q, d, &dk.values[(keys + j) * d]);
    }
  }
  for (ref::Tensor<float>* each : {&dq, &dk, &dv})
    for (float& x : each->values) x = rounded(x);
  return {ref::convert<double>(o), ref::convert<double>(dq), ref::convert<double>(dk),
          ref::convert<double>(dv)};
}

double largest_of(const ref::Tensor<double>& a) {
  double largest = 0;
  for (const double x : a.values) largest = std::max(largest, std::fabs(x));
  return largest;
}
double distance(ref::Tensor<double> a, const ref::Tensor<double>& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    a.values[i] -= b.values[i];
    if (std::isnan(a.values[i])) return HUGE_VAL;
  }
  return largest_of(a);
}

// Of a handful of numbers the textbook's may all be exact by chance: largest errors tell something
// where there are many, each of which a few keys have a part in.
SdpaShape large_shape(RandomProblem* random, index_t most_rows, index_t most_cols) {
  SdpaShape shape = random_shape(random, most_rows, most_cols);
  for (index_t* size : {&shape.n, &shape.m}) *size += 24;
  for (index_t* size : {&shape.d, &shape.dv}) *size += 8;
  while (visible_pairs(shape.mask, shape.n, shape.m) < shape.n * shape.m / 4)
    shape.mask = random->mask(shape.n, shape.m);
  return shape;
}

// Problem `number` of all of a type, which is the same whoever asks: one in 32 has long sums, one
// in 4 another scale.
template <class S>
void check_problem(unsigned number, Errors* worst) {
  RandomProblem random(70000 + number + (std::is_same_v<S, f16> ? 100000U : 0U));
  const bool is_long = number % 32 == 31;
  SdpaShape shape = large_shape(&random, is_long ? 700 : 60, is_long ? 30 : 60);
  if (is_long) shape.batch = shape.kv_heads = shape.heads = 1;
  HalfCase<S> half(shape);
  half.randomise(number);
  half.scale = 1 / std::sqrt(float(shape.d));
  if (number % 4 == 2) half.scale *= float(random.uniform(-64, 64)) / 16;

  static const auto tables = tables_of_half<S>();
  plan::SdpaRequest request;
  request.shape = shape;
  request.dtype = dtype_of<S>::value;
  request.M = random.logarithmic(4000, 600000);
  const auto& table = *tables[std::size_t(random.uniform(0, index_t(tables.size()) - 1))];
  request.tile = table.tile;
  const SdpaSet all = {true, true, true, false};
  plan::SdpaPlan forward, backward;
  ASSERT_OK(make_plan_of(request, std::nullopt, &forward));
  ASSERT_OK(make_plan_of(request, all, &backward));
  const typename HalfCase<S>::Run run = {&table, int(random.uniform(1, 4))};
  ASSERT_OK(half.forward(forward.blocks.rows, run));
  ASSERT_OK(half.backward(all, backward.blocks, run));

  constexpr double unit = std::is_same_v<S, bf16> ? 0x1p-9 : 0x1p-12;
  const ref::SdpaInputs<double> inputs = inputs_of(half);
  const ref::SdpaResults<double> results = ref::sdpa(inputs, 0.0);
  const Outputs exact = {results.O, results.dQ, results.dK, results.dV};
  const Outputs ours = outputs_of(half), theirs = textbook<S>(inputs);
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const double error = distance(ours[k], exact[k]), allowed = distance(theirs[k], exact[k]);
    // Where the textbook's is small by chance: half of what rounding the largest number may cost.
    const double least = unit / 2 * largest_of(exact[k]);
    EXPECT_LE(error, 2 * allowed + least)
        << output_names[k] << " of "
        << to_text(SdpaProblem{shape, request.dtype, double(half.scale)}) << " "
        << name_of(table.tile.isa) << " M=" << request.M << " " << to_text(forward) << " "
        << to_text(backward);
    (*worst)[k] = std::max((*worst)[k], error / (allowed + least));
  }
}

template <class S>
class HalfErrors : public testing::Test {
 protected:
  void check(unsigned first, unsigned last) {
    Errors worst = {};
    for (unsigned number = first; number < last && !this->HasFailure(); ++number) {
      SCOPED_TRACE("problem " + std::to_string(number));
      check_problem<S>(number, &worst);
    }
    std::cout << last - first << " problems, largest ratio:";
    for (std::size_t k = 0; k < worst.size(); ++k) {
      std::cout << " " << output_names[k] << " " << worst[k];
      EXPECT_GT(worst[k], 0.1) << output_names[k];  // else nothing was measured
    }
    std::cout << "\n";
  }
};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfErrors, Types);

TYPED_TEST(HalfErrors, FirstProblems) { this->check(0, 1000); }
TYPED_TEST(HalfErrors, MoreProblems) { this->check(1000, 10000); }

}  // namespace
}  // namespace ioattn_test
