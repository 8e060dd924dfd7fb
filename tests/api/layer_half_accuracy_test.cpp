// The layer problem in 16 bits against float64 on the rounded inputs: results are those of f32,
// rounded once; of pairs h, the weights and their gradients are rounded before, once.

#include "api/half_arithmetic.hpp"
#include "api/half_errors.hpp"
#include "api/layer_half_call.hpp"

namespace ioattn_test {
namespace {

namespace ref = ioattn_reference;
using Matrix = ref::Matrix<double>;

template <class S>
Matrix matrix(const std::vector<S>& values, std::int64_t rows, std::int64_t cols) {
  Matrix m(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols));
  m.values = numbers(values);
  return m;
}

// All but the scale.
template <class S, class G>
ref::LayerInputs<double> inputs_of(const LayerHalfCall<S, G>& call) {
  const auto [n, m, d, dv, dk, batch, tied] = call.sizes;
  ref::LayerInputs<double> in;
  in.A1 = matrix(call.a1, n, d);
  in.A2 = matrix(call.a2, m, d);
  in.A3 = tied ? in.A2 : matrix(call.a3, m, d);
  in.X = matrix(call.x, d, d);
  in.Y = matrix(call.y, d, dv);
  in.dO = matrix(call.d_o, n, dv);
  return in;
}

double as_bf16(double x) { return double(number(element<ioattn_bf16>(float(x)))); }
Matrix in_bf16(Matrix m) {
  for (double& x : m.values) x = as_bf16(x);
  return m;
}

template <class Type>
class LayerHalfAccuracy : public HalfTest<Type> {};
using Types = testing::Types<Arithmetic<ioattn_bf16, false>, Arithmetic<ioattn_f16, false>,
                             Arithmetic<ioattn_bf16, true>, Arithmetic<ioattn_bf16, true, true>>;
TYPED_TEST_SUITE(LayerHalfAccuracy, Types);

TYPED_TEST(LayerHalfAccuracy, IsThatOfRoundingOnce) {
  using S = typename TypeParam::S;
  const double times = TypeParam::pairs ? 2 : 1.05;
  const double in_f32 = TypeParam::pairs ? 1.0 / 256 : 4e-6;
  unsigned seed = 0;
  for (const LayerHalfSizes& sizes :
       {LayerHalfSizes{64, 96, 16, 24}, LayerHalfSizes{150, 129, 40, 40, 16, 1, true},
        LayerHalfSizes{129, 320, 96, 24, 32}, LayerHalfSizes{70, 60, 200, 130}}) {
    SCOPED_TRACE(sizes.d);
    LayerHalfCall<S> call(sizes, ++seed);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    LayerHalfCall<S, float> wide(sizes, seed);
    ASSERT_EQ(wide.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(wide.backward(), IOATTN_OK) << ioattn_last_error();

    const auto [n, m, d, dv, dk, batch, tied] = sizes;
    ref::LayerInputs<double> in = inputs_of(call);
    in.scale = call.problem.scale;
    ref::Forward<double> forward = ref::forward(in);
    expect_rounded("O", times, call.o, forward.O.values);
    EXPECT_LE(distance(numbers(call.lse), forward.L.values), 1e-6);
    // Gradients from the O that the backward pass is given.
    forward.O = matrix(call.o, n, dv);
    const ref::Backward<double> exact = ref::backward(in, forward);
    const Matrix exact_weights[] = {
        ref::multiply(exact.dX, matrix(call.w_k, d, dk)),
        ref::multiply(ref::transpose(exact.dX), matrix(call.w_q, d, dk))};
    const Matrix* const all[] = {&exact.dX,  &exact.dY,         &exact.dA1,       &exact.dA2,
                                 &exact.dA3, &exact_weights[0], &exact_weights[1]};
    for (std::size_t k = 0; k < std::size(all); ++k) {
      expect_rounded(gradient_names[k], times, call.out[k], all[k]->values);
      EXPECT_LE(distance(numbers(wide.out[k]), all[k]->values), in_f32) << gradient_names[k];
    }
  }
}

// All in f32 but h, weights and their gradients, which are rounded once, as factors, and the
// results.
struct PairModel {
  Matrix o;
  std::array<Matrix, 5> out;  // dX, dY, dA1, dA2, dA3

  PairModel(const ref::LayerInputs<double>& in, const Matrix& given_o) {
    Matrix scaled = in.X;
    for (double& x : scaled.values) x *= in.scale;
    const Matrix s = ref::multiply(in.A1, scaled), h = in_bf16(ref::multiply(in.A3, in.Y));
    Matrix f = ref::multiply(s, ref::transpose(in.A2));
    for (std::size_t i = 0; i < f.rows; ++i) {
      double* row = &f.values[i * f.cols];
      const double most = *std::max_element(row, row + f.cols);
      double sum = 0;
      for (std::size_t j = 0; j < f.cols; ++j) sum += row[j] = std::exp(row[j] - most);
      for (std::size_t j = 0; j < f.cols; ++j) row[j] /= sum;
    }
    const Matrix weights = in_bf16(f);
    o = in_bf16(ref::multiply(weights, h));
    Matrix p = ref::multiply(in.dO, ref::transpose(h));
    for (std::size_t i = 0; i < f.rows; ++i) {
      double delta = 0;
      for (std::size_t l = 0; l < o.cols; ++l)
        delta += in.dO.values[i * o.cols + l] * given_o.values[i * o.cols + l];
      for (std::size_t j = 0; j < f.cols; ++j) {
        double& of_pair = p.values[i * f.cols + j];
        of_pair = as_bf16(f.values[i * f.cols + j] * (of_pair - delta));
      }
    }
    const Matrix u = ref::multiply(p, in.A2), w = ref::multiply(ref::transpose(weights), in.dO);
    out = {ref::multiply(ref::transpose(in.A1), u), ref::multiply(ref::transpose(in.A3), w),
           ref::multiply(u, ref::transpose(scaled)), ref::multiply(ref::transpose(p), s),
           ref::multiply(w, ref::transpose(in.Y))};
    for (double& x : out[0].values) x *= in.scale;
    for (Matrix& each : out) each = in_bf16(each);
  }
};

// Also of scores so large that a rounded S would move weights by more than they are rounded.
TEST_F(PairAccuracy, OfTheLayerIsThatOfRoundingFactorsAndResultsOnce) {
  constexpr double times = 1.05;
  for (const LayerHalfSizes& sizes :
       {LayerHalfSizes{300, 257, 64, 64}, LayerHalfSizes{257, 300, 80, 48, 3, 1, true},
        LayerHalfSizes{512, 512, 33, 40}, LayerHalfSizes{200, 400, 260, 100}}) {
    for (const double spread : {1., 3.}) {
      LayerHalfCall<ioattn_bf16> call(sizes, unsigned(sizes.n));
      call.problem.scale = spread / std::sqrt(double(sizes.d));
      ref::LayerInputs<double> in = inputs_of(call);
      in.scale = double(float(call.problem.scale));
      const ref::Forward<double> forward = ref::forward(in);
      const ref::Backward<double> exact = ref::backward(in, forward);
      const PairModel model(in, PairModel(in, forward.O).o);
      for (const ioattn::Isa isa : of_pairs()) {
        SCOPED_TRACE(testing::Message()
                     << name_of(isa) << " n " << sizes.n << " spread " << spread);
        setenv("IOATTN_ISA", name_of(isa), 1);
        ioattn_options options = with_threads(1);
        options.schedule = "tile_fused";
        ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
        ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
        expect_as_near("O", times, call.o, model.o.values, forward.O.values);
        const Matrix* const right[] = {&exact.dX, &exact.dY, &exact.dA1, &exact.dA2, &exact.dA3};
        for (std::size_t k = 0; k < std::size(right); ++k) {
          expect_as_near(gradient_names[k], times, call.out[k], model.out[k].values,
                         right[k]->values);
        }
      }
    }
  }
}

// With few keys, whose weights are far from alike, deltas of a rounded O would err by more than all
// else; they are made of the weights, although LSE is that of f32 scores.
TEST_F(PairAccuracy, OfFewKeysDoesNotDependOnWhoMadeTheForwardPass) {
  constexpr double times = 2.5;
  for (const LayerHalfSizes& sizes :
       {LayerHalfSizes{14, 14, 14, 138}, LayerHalfSizes{60, 20, 32, 40, 3, 1, true},
        LayerHalfSizes{9, 64, 48, 64}}) {
    LayerHalfCall<ioattn_bf16> call(sizes, unsigned(sizes.m));
    call.problem.scale = 1;
    const ref::LayerInputs<double> in = inputs_of(call);
    const ref::Backward<double> exact = ref::backward(in, ref::forward(in));
    for (const ioattn::Isa isa : of_pairs()) {
      SCOPED_TRACE(testing::Message() << name_of(isa) << " m " << sizes.m);
      setenv("IOATTN_ISA", name_of(isa), 1);
      ioattn_options options = with_threads(1);
      options.schedule = "row_stream";
      ASSERT_EQ(call.forward(&options), IOATTN_OK) << ioattn_last_error();
      options.schedule = "tile_fused";
      ASSERT_EQ(call.backward(&options), IOATTN_OK) << ioattn_last_error();
      expect_rounded("dX", times, call.out[0], exact.dX.values);
      expect_rounded("dA1", times, call.out[2], exact.dA1.values);
      expect_rounded("dA2", times, call.out[3], exact.dA2.values);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
