#include <gtest/gtest.h>

#include "base/layer_inputs.hpp"
#include "base/observer.hpp"

namespace ioattn {
namespace {

TEST(MatrixView, FindsRowsAndElements) {
  float values[20];
  const MatrixView<float> view = {values, 3, 4, 6};
  EXPECT_EQ(view.row(0), values);
  EXPECT_EQ(view.row(2), values + 12);
  EXPECT_EQ(view.at(2, 3), values + 15);
  const MatrixView<const float> read_only = view;
  EXPECT_EQ(read_only.at(1, 2), values + 8);
  EXPECT_EQ(read_only.rows, 3);
  EXPECT_EQ(read_only.cols, 4);
  EXPECT_EQ(read_only.stride, 6);
}

TEST(Block, CountsItsWords) {
  EXPECT_EQ((Block{Operand::S, 100, 200, 7, 9}.words()), 63);
  EXPECT_EQ((Block{Operand::S, 100, 200, 0, 9}.words()), 0);
}

TEST(LayerInputs, KnowWhichOperandsAreTheSameMemory) {
  const double a[8] = {}, b[8] = {}, c[8] = {}, x[4] = {}, y[6] = {};
  const auto rows = [](const double* data) { return MatrixView<const double>{data, 4, 2, 2}; };
  const MatrixView<const double> x_view = {x, 2, 2, 2}, y_view = {y, 2, 3, 3};
  const auto tie = [&](const double* a1, const double* a2, const double* a3) {
    return shape_of(LayerInputs<double>{rows(a1), rows(a2), rows(a3), x_view, y_view}).tie;
  };
  EXPECT_EQ(tie(a, b, c), Tie::none);
  EXPECT_EQ(tie(a, b, b), Tie::kv);
  EXPECT_EQ(tie(a, a, a), Tie::all);
  EXPECT_EQ(tie(a, a, b), Tie::none);  // A1 = A2 alone saves no schedule a word
  EXPECT_EQ(tie(a, b, a), Tie::none);

  LayerInputs<double> inputs = {rows(a), rows(b), rows(b), x_view, y_view};
  EXPECT_EQ(shape_of(inputs), (LayerShape{4, 4, 2, 3, Tie::kv}));
  inputs.a3.stride = 1;  // the same address, other elements
  EXPECT_EQ(shape_of(inputs).tie, Tie::none);
  inputs.a3 = inputs.a2;
  inputs.a1 = {b, 3, 2, 2};  // a part of the keys
  EXPECT_EQ(shape_of(inputs), (LayerShape{3, 4, 2, 3, Tie::kv}));
}

}  // namespace
}  // namespace ioattn
