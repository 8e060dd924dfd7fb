// Errors of SDPA on thousands of seeded problems: forward and backward as planned, on every
// instruction set of this CPU, within a fraction of the ratio that gauge.hpp allows.

#include <iostream>

#include "plan/sdpa/sdpa_planner.hpp"
#include "schedules/sdpa_case.hpp"
#include "schedules/tables.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

constexpr const char* output_names[] = {"O", "LSE", "dQ", "dK", "dV"};
using Ratios = std::array<double, std::size(output_names)>;

// The largest of 16500 problems in f32 is 1.37: an error of several units would pass pass_ratio.
constexpr double most_ratio = 3;
static_assert(most_ratio < ref::pass_ratio);

// Times 2^k: scores from nearly equal to nearly one-hot, values and dO from those whose products
// are subnormal to large ones.
void change_magnitudes(RandomProblem* random, ref::SdpaInputs<double>* inputs) {
  const auto multiply = [&](ref::Tensor<double>* tensor, index_t least, index_t most) {
    const int exponent = static_cast<int>(random->uniform(least, most));
    for (double& value : tensor->values) value = std::ldexp(value, exponent);
  };
  multiply(&inputs->Q, -10, 3);
  multiply(&inputs->K, -10, 3);
  multiply(&inputs->V, -60, 40);
  multiply(&inputs->dO, -60, 40);
}

constexpr unsigned all_problems = 30000;

// Problem `trial` of all of a type, which is the same whoever asks: one in 32 has long sums, one in
// 4 magnitudes of its own, one in 4 another scale.
template <class T>
class Trial {
 public:
  explicit Trial(unsigned trial)
      : seed_(9000 + trial + (std::is_same_v<T, double> ? all_problems : 0)),
        random_(seed_),
        layout_(ref::all_layouts[trial % 3]) {
    const bool is_long = trial % 32 == 31;
    shape_ = random_shape(&random_, is_long ? 700 : 80, is_long ? 30 : 70);
    if (is_long) shape_.batch = shape_.kv_heads = shape_.heads = 1;
    inputs_ = SdpaCase<T>::inputs_for(shape_, seed_, 0);
    if (trial % 4 == 1) change_magnitudes(&random_, &inputs_);
    if (trial % 4 == 2) inputs_.scale *= static_cast<double>(random_.uniform(-64, 64)) / 16;
  }

  void run(Ratios* worst) {
    const auto tables = tables_under_test<T>();
    const index_t last = static_cast<index_t>(tables.size()) - 1;
    plan::SdpaRequest request;
    request.shape = shape_;
    request.dtype = dtype_of<T>::value;
    request.M = random_.logarithmic(least_M, 300000);
    const kernels::KernelTable<T>& table =
        *tables[static_cast<std::size_t>(random_.uniform(0, last))];
    request.tile = table.tile;
    const SdpaSet all = {true, true, true, false};
    plan::SdpaPlan forward, backward;
    ASSERT_OK(make_plan_of(request, std::nullopt, &forward));
    ASSERT_OK(make_plan_of(request, all, &backward));
    if (random_.uniform(0, 1) == 1) {  // in two passes, each as planned alone
      request.form = plan::SdpaForm::rows;
      plan::SdpaPlan rows, keys;
      ASSERT_OK(make_plan_of(request, SdpaSet{true, false, false, false}, &rows));
      ASSERT_OK(make_plan_of(request, SdpaSet{false, true, true, false}, &keys));
      backward.blocks = {rows.blocks.rows, keys.blocks.keys};
    }

    SdpaCase<T> problem(shape_, layout_, inputs_);
    const typename SdpaCase<T>::Run run = {&table, static_cast<int>(random_.uniform(1, 4))};
    ASSERT_OK(problem.forward(forward.blocks.rows, run));
    ASSERT_OK(problem.backward_from_forward(all, backward.blocks, run));
    const Ratios ratios = problem.ratios();
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      EXPECT_LE(ratios[i], most_ratio)
          << output_names[i] << " of " << to_text(SdpaProblem{shape_, request.dtype, inputs_.scale})
          << " M=" << request.M << " " << to_text(forward) << " " << to_text(backward);
      (*worst)[i] = std::max((*worst)[i], ratios[i]);
    }
  }

 private:
  static constexpr index_t least_M = 2000;

  unsigned seed_;
  RandomProblem random_;
  ref::Layout layout_;
  SdpaShape shape_;
  ref::SdpaInputs<double> inputs_;
};

template <class T>
class SdpaErrors : public testing::Test {
 protected:
  void check(unsigned first, unsigned last) {
    Ratios worst = {};
    for (unsigned trial = first; trial < last && !this->HasFailure(); ++trial) {
      SCOPED_TRACE("problem " + std::to_string(trial));
      Trial<T>(trial).run(&worst);
    }
    std::cout << last - first << " problems, largest T:";
    for (std::size_t i = 0; i < worst.size(); ++i) {
      std::cout << " " << output_names[i] << " " << worst[i];
      EXPECT_GT(worst[i], 0.01) << output_names[i];  // else nothing was measured
    }
    std::cout << "\n";
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SdpaErrors, Types);

TYPED_TEST(SdpaErrors, FirstProblems) { this->check(0, 3000); }
TYPED_TEST(SdpaErrors, MoreProblems) { this->check(3000, 16500); }
TYPED_TEST(SdpaErrors, LastProblems) { this->check(16500, all_problems); }

}  // namespace
}  // namespace ioattn_test
