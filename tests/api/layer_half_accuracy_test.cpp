// The layer problem in 16 bits against float64 on the rounded inputs: results are those of f32,
// rounded once.

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

template <class S>
class LayerHalfAccuracy : public testing::Test {};
using Types = testing::Types<ioattn_bf16, ioattn_f16>;
TYPED_TEST_SUITE(LayerHalfAccuracy, Types);

TYPED_TEST(LayerHalfAccuracy, IsThatOfRoundingOnce) {
  using S = TypeParam;
  const double times = 1.05;
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
    ref::LayerInputs<double> in;
    in.A1 = matrix(call.a1, n, d);
    in.A2 = matrix(call.a2, m, d);
    in.A3 = tied ? in.A2 : matrix(call.a3, m, d);
    in.X = matrix(call.x, d, d);
    in.Y = matrix(call.y, d, dv);
    in.dO = matrix(call.d_o, n, dv);
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
      EXPECT_LE(distance(numbers(wide.out[k]), all[k]->values), 4e-6) << gradient_names[k];
    }
  }
}

}  // namespace
}  // namespace ioattn_test
