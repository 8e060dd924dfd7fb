// Sets of gradients through the C functions: every output and random subsets against the oracle,
// what is refused, and what refusals leave alone.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "api/layer_call.hpp"

namespace ioattn_test {
namespace {

struct Output {
  const char* name;
  void* ioattn_layer_gradients::*data;
  std::int64_t ioattn_layer_gradients::*stride;
};
constexpr Output outputs[] = {
    {"dX", &ioattn_layer_gradients::dx, &ioattn_layer_gradients::dx_stride},
    {"dY", &ioattn_layer_gradients::dy, &ioattn_layer_gradients::dy_stride},
    {"dA1", &ioattn_layer_gradients::da1, &ioattn_layer_gradients::da1_stride},
    {"dA2", &ioattn_layer_gradients::da2, &ioattn_layer_gradients::da2_stride},
    {"dA3", &ioattn_layer_gradients::da3, &ioattn_layer_gradients::da3_stride},
    {"dA", &ioattn_layer_gradients::da, &ioattn_layer_gradients::da_stride},
    {"dW_Q", &ioattn_layer_gradients::dw_q, &ioattn_layer_gradients::dw_q_stride},
    {"dW_K", &ioattn_layer_gradients::dw_k, &ioattn_layer_gradients::dw_k_stride}};
constexpr std::size_t output_count = std::size(outputs);
constexpr std::size_t dk = 3;

template <class Matrix>
Matrix plus(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}
template <class Matrix>
Matrix absolute(Matrix a) {
  for (auto& value : a.values) value = std::abs(value);
  return a;
}

// A call for any subset, with the oracle's results.
template <class T>
class GradientCall {
 public:
  using Wide = typename LayerCall<T>::Wide;
  using Unit = reference::Matrix<double>;

  GradientCall(const CaseShape& shape, std::size_t padding)
      : call(shape, padding),
        w_q_values_(reference::random_matrix(shape.d, dk, 5)),
        w_k_values_(reference::random_matrix(shape.d, dk, 6)),
        w_q(w_q_values_, padding),
        w_k(w_k_values_, padding) {
    const auto [n, m, d, dv, ties] = shape;
    const std::size_t sizes[output_count][2] = {{d, d}, {d, dv}, {n, d},  {m, d},
                                                {m, d}, {m, d},  {d, dk}, {d, dk}};
    for (const auto& size : sizes) out.push_back({size[0], size[1], padding});
    gradients.struct_size = sizeof gradients;
    gradients.dk = dk;
    gradients.w_q = w_q.data();
    gradients.w_q_stride = w_q.stride();
    gradients.w_k = w_k.data();
    gradients.w_k_stride = w_k.stride();
    prepare(ties);
  }

  void want(unsigned subset) {
    for (std::size_t i = 0; i < output_count; ++i) {
      const bool wanted = ((subset >> i) & 1U) != 0;
      gradients.*outputs[i].data = wanted ? out[i].data() : nullptr;
      gradients.*outputs[i].stride = out[i].stride();
      out[i].fill_with_pattern();
    }
  }
  ioattn_status run(const ioattn_options* options) {
    return ioattn_layer_backward(&call.problem, options, call.d_o.data(), call.d_o.stride(),
                                 call.o.data(), call.o.stride(), call.lse.data(), &gradients);
  }
  // From the inputs alone.
  ioattn_status run_whole(const ioattn_options* options) {
    return ioattn_layer_backward(&call.problem, options, call.d_o.data(), call.d_o.stride(),
                                 nullptr, 0, nullptr, &gradients);
  }

  void expect(unsigned subset) const {
    for (std::size_t i = 0; i < output_count; ++i) {
      if (((subset >> i) & 1U) == 0) {
        EXPECT_TRUE(out[i].untouched()) << outputs[i].name << " was not wanted";
        continue;
      }
      const reference::Worst worst = reference::worst_ratio(
          out[i].data(), static_cast<std::size_t>(out[i].stride()), wanted_[i], units_[i]);
      EXPECT_TRUE(worst.passes()) << outputs[i].name << " of " << name_of(call.shape) << ": "
                                  << to_string(worst);
      EXPECT_TRUE(out[i].padding_untouched()) << outputs[i].name;
    }
  }
  bool untouched() const {
    for (const Strided<T>& matrix : out)
      if (!matrix.untouched()) return false;
    return true;
  }
  std::vector<T> all_outputs() const {
    std::vector<T> all;
    for (const Strided<T>& matrix : out) {
      const std::vector<T> dense = matrix.dense();
      all.insert(all.end(), dense.begin(), dense.end());
    }
    return all;
  }

  LayerCall<T> call;

 private:
  reference::Matrix<double> w_q_values_, w_k_values_;

 public:
  Strided<T> w_q, w_k;
  std::vector<Strided<T>> out;
  ioattn_layer_gradients gradients = {};

 private:
  void prepare(Ties ties) {
    const reference::LayerInputs<Wide> wide = reference::convert<Wide>(call.inputs);
    const reference::Forward<Wide> fwd = reference::forward(wide);
    const reference::Backward<Wide> bwd = reference::backward(wide, fwd);
    const reference::Gauge gauge = reference::make_gauge<T>(wide, fwd);
    reference::Matrix<Wide> sum = plus(bwd.dA2, bwd.dA3);
    Unit sum_unit = plus(gauge.dA2, gauge.dA3);
    if (ties == Ties::all) {
      sum = plus(sum, bwd.dA1);
      sum_unit = plus(sum_unit, gauge.dA1);
    }
    wanted_ = {
        bwd.dX,
        bwd.dY,
        bwd.dA1,
        bwd.dA2,
        bwd.dA3,
        sum,
        reference::multiply(bwd.dX, reference::convert<Wide>(w_k_values_)),
        reference::multiply(reference::transpose(bwd.dX), reference::convert<Wide>(w_q_values_))};
    units_ = {gauge.dX,
              gauge.dY,
              gauge.dA1,
              gauge.dA2,
              gauge.dA3,
              sum_unit,
              reference::multiply(gauge.dX, absolute(w_k_values_)),
              reference::multiply(reference::transpose(gauge.dX), absolute(w_q_values_))};
  }

  std::vector<reference::Matrix<Wide>> wanted_;
  std::vector<Unit> units_;
};

constexpr unsigned of_da = 1U << 5;

template <class T>
class Gradients : public testing::Test {};
TYPED_TEST_SUITE(Gradients, BothTypes);

TYPED_TEST(Gradients, AnySubset) {
  const CaseShape shapes[] = {
      {23, 31, 9, 7, Ties::none}, {40, 17, 12, 20, Ties::keys_values}, {26, 26, 10, 10, Ties::all}};
  std::mt19937 engine(3);
  for (const CaseShape& shape : shapes) {
    GradientCall<TypeParam> call(shape, 2);
    ASSERT_EQ(call.call.forward(), IOATTN_OK);
    for (unsigned round = 0; round < 60; ++round) {
      unsigned subset = round < output_count ? 1U << round : engine() % 256;
      if (round == output_count) subset = 255;
      if (shape.ties == Ties::none) subset &= ~of_da;
      if (subset == 0) continue;
      SCOPED_TRACE("subset " + std::to_string(subset));
      ioattn_options options = default_options();
      options.fast_memory_words = round % 3 == 0 ? 0 : 400 + 50 * round;
      options.threads = static_cast<std::int32_t>(1 + round % 3);
      call.want(subset);
      ASSERT_EQ(call.run(&options), IOATTN_OK) << ioattn_last_error();
      call.expect(subset);
      const std::vector<TypeParam> bits = call.all_outputs();
      options.threads = static_cast<std::int32_t>(1 + (round + 1) % 3);
      call.want(subset);
      ASSERT_EQ(call.run(&options), IOATTN_OK);
      ASSERT_TRUE(same_bits(bits, call.all_outputs()));
      if (round % 5 == 0) {
        call.want(subset);
        ASSERT_EQ(call.run_whole(&options), IOATTN_OK) << ioattn_last_error();
        call.expect(subset);
      }
    }
  }
}

TYPED_TEST(Gradients, OfEmptyProblemsAreZero) {
  for (const CaseShape& shape : {CaseShape{0, 4, 3, 2, Ties::none},
                                 {5, 0, 3, 2, Ties::none},
                                 {5, 4, 0, 2, Ties::none},
                                 {5, 4, 3, 0, Ties::none}}) {
    GradientCall<TypeParam> call(shape, 1);
    call.want(255 & ~of_da);
    ASSERT_EQ(call.run_whole(nullptr), IOATTN_OK) << ioattn_last_error();
    for (std::size_t i = 0; i < output_count; ++i) {
      if (1U << i == of_da) continue;
      for (const TypeParam value : call.out[i].dense()) EXPECT_EQ(value, 0) << outputs[i].name;
    }
  }
}

class Refused : public testing::Test {
 protected:
  Refused() : call({6, 8, 5, 4, Ties::none}, 1) {
    EXPECT_EQ(call.call.forward(), IOATTN_OK);
    call.want(255 & ~of_da);
  }
  void expect(ioattn_status status, const char* message, const ioattn_options* options = nullptr) {
    EXPECT_EQ(call.run(options), status);
    EXPECT_NE(std::string(ioattn_last_error()).find(message), std::string::npos)
        << ioattn_last_error();
    EXPECT_TRUE(call.untouched());
  }
  GradientCall<float> call;
};

TEST_F(Refused, StructSizeAndNull) {
  call.gradients.struct_size -= 1;
  expect(IOATTN_INVALID_ARGUMENT, "gradients: struct_size");
  EXPECT_EQ(ioattn_layer_backward(&call.call.problem, nullptr, call.call.d_o.data(), 0, nullptr, 0,
                                  nullptr, nullptr),
            IOATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(ioattn_last_error(), "gradients is null");
}

TEST_F(Refused, SumOfUntiedOperands) {
  call.want(of_da);
  expect(IOATTN_INVALID_ARGUMENT, "it needs A2 = A3");
}

TEST_F(Refused, StridesOfEveryOutput) {
  for (const Output& output : outputs) {
    if (output.data == &ioattn_layer_gradients::da) continue;
    const std::int64_t right = call.gradients.*output.stride;
    call.gradients.*output.stride = 2;
    expect(IOATTN_INVALID_ARGUMENT, output.name);
    call.gradients.*output.stride = right;
  }
}

TEST_F(Refused, OutputsThatOverlap) {
  for (const Output& output : outputs) {
    if (output.data == &ioattn_layer_gradients::da) continue;
    void* right = call.gradients.*output.data;
    call.gradients.*output.data = const_cast<void*>(call.call.problem.a2);
    expect(IOATTN_INVALID_ARGUMENT, "overlap");
    call.gradients.*output.data =
        output.data == &ioattn_layer_gradients::dx ? call.out[1].data() : call.out[0].data();
    expect(IOATTN_INVALID_ARGUMENT, "overlap");
    call.gradients.*output.data = right;
  }
}

TEST_F(Refused, WeightsThatAreMissing) {
  call.gradients.w_k = nullptr;
  expect(IOATTN_INVALID_ARGUMENT, "W_K is null");
  call.gradients.w_k = call.w_k.data();
  call.gradients.w_q = nullptr;
  expect(IOATTN_INVALID_ARGUMENT, "W_Q is null");
  call.gradients.dk = -1;
  expect(IOATTN_INVALID_ARGUMENT, "dk is negative");
  call.gradients.dk = std::int64_t{1} << 61;
  expect(IOATTN_SIZE_OVERFLOW, "64 bits");
  // Without dW_Q and dW_K none of them is read.
  call.want(1);
  EXPECT_EQ(call.run(nullptr), IOATTN_OK) << ioattn_last_error();
  call.expect(1);
}

TEST_F(Refused, TooLittleMemory) {
  ioattn_options options = default_options();
  options.fast_memory_words = 2;
  expect(IOATTN_FAST_MEMORY_TOO_SMALL, "the least is ", &options);
  const std::string message = ioattn_last_error();
  options.fast_memory_words = std::stoll(message.substr(message.rfind(' ')));
  options.fast_memory_words -= 1;
  expect(IOATTN_FAST_MEMORY_TOO_SMALL, "the least is ", &options);
  options.fast_memory_words += 1;
  options.memory_limit = 100;
  expect(IOATTN_MEMORY_LIMIT, "100 bytes", &options);
  options.memory_limit = 0;
  EXPECT_EQ(call.run(&options), IOATTN_OK) << ioattn_last_error();
}

TEST_F(Refused, SchedulesThatComputeDxAlone) {
  ioattn_options options = default_options();
  options.schedule = "paper_small";
  expect(IOATTN_UNSUPPORTED, "paper_small computes dX alone", &options);
  options.schedule = "score_stored";
  expect(IOATTN_UNSUPPORTED, "score_stored has no backward pass", &options);
  options.schedule = "paper_small";
  const unsigned dx_and_weights = 1U | 1U << 6 | 1U << 7;
  call.want(dx_and_weights);
  EXPECT_EQ(call.run(&options), IOATTN_OK) << ioattn_last_error();
  call.expect(dx_and_weights);
}

}  // namespace
}  // namespace ioattn_test
