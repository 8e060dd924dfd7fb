// The pass over the keys: what an observer counts is the formula, the gradients are the oracle's,
// for every subset and both forms, and threads change no bit.

#include "schedules/keys/col_stream.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "instruments/io_counter.hpp"
#include "plan/blocks/blocking_col_stream.hpp"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/padded.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/rounding_limit.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "schedules/trace.hpp"
#include "status_ok.hpp"
#include "theory/block_costs.hpp"
#include "theory/bounds.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

struct Choice {
  Form form;
  KeyPassKind wanted;
};
std::vector<Choice> choices(Tie tie) {
  std::vector<Choice> list;
  for (const Form form : {Form::g, Form::h})
    for (const KeyGradients wanted : {KeyGradients::keys, KeyGradients::values, KeyGradients::both})
      for (const bool queries : {false, true}) list.push_back({form, {wanted, queries}});
  if (tie != Tie::none) {
    for (const bool queries : {false, true})
      list.push_back({Form::g, {KeyGradients::sum, queries}});
  }
  return list;
}

std::string describe(const LayerShape& shape, const Choice& choice, const Blocks& blocks) {
  return to_text(LayerProblem{shape, DType::f32}) + " form " + name_of(choice.form) + " " +
         name_of(choice.wanted.wanted) + (choice.wanted.queries ? " U" : "") +
         " c=" + std::to_string(blocks.c) + " rho=" + std::to_string(blocks.rho);
}

// A case with what the pass is given, rounded to T, and outputs of NaN. What is not wanted is null.
template <class T>
class KeyPass {
 public:
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

  KeyPass(ref::Kind kind, const LayerShape& shape, std::uint64_t seed, index_t padding)
      : shape_(shape), padding_(padding) {
    const auto [n, m, d, e, tie, mask] = shape;
    inputs_ = ref::make_case(kind,
                             {std::size_t(n), std::size_t(m), std::size_t(d), std::size_t(e),
                              static_cast<ref::Ties>(tie)},
                             seed);
    const ref::LayerInputs<Wide> wide = ref::convert<Wide>(inputs_);
    fwd_ = ref::forward(wide);
    bwd_ = ref::backward(wide, fwd_);
    gauge_ = ref::make_gauge<T>(wide, fwd_);
    g_ = ref::multiply(wide.dO, ref::transpose(wide.Y));
  }

  using Results = std::array<Padded<T>, 3>;
  // Runs the pass and returns dA2 (or the sum), W or dA3, and U.
  Results run(const Choice& choice, const Blocks& blocks, const kernels::KernelTable<T>& kernels,
              int threads, Observer* observer) const {
    const bool g_form = choice.form == Form::g;
    const bool keys = choice.wanted.of_keys();
    const bool values = choice.wanted.of_values() && !choice.wanted.is_sum();
    const bool makes_p = choice.wanted.makes_p();
    const Padded<T> a2(inputs_.A2, padding_), a3(inputs_.A3, padding_), h(wide(fwd_.h), padding_);
    const Padded<T> s(with_row(wide(fwd_.S)), kernels.tile.cols);
    const Padded<T> g(with_row(wide(g_)), kernels.tile.cols), d_o(inputs_.dO, padding_);
    const Padded<T> lse(wide(fwd_.L), 0), delta(wide(bwd_.v), 0);
    Results out = {Padded<T>(shape_.m, shape_.d, padding_),
                   Padded<T>(shape_.m, g_form ? shape_.d : shape_.dv, padding_),
                   Padded<T>(shape_.n, shape_.d, padding_)};
    schedules::KeyPassOperands<T> operands;
    operands.keys = a2.view();
    const bool tied = shape_.tie != Tie::none;
    if (makes_p && g_form && !tied) operands.a3 = a3.view();
    if (makes_p && !g_form) operands.values = h.view();
    operands.queries = {s.values.data(), shape_.n, shape_.d, s.stride};
    operands.g = {g.values.data(), shape_.n, shape_.d, g.stride};
    operands.d_o = d_o.view();
    operands.lse = lse.values.data();
    if (makes_p) operands.delta = delta.values.data();
    if (keys) operands.d_keys = out[0].view();
    if (values) operands.d_values = out[1].view();
    if (choice.wanted.queries) operands.d_queries = out[2].view();

    schedules::WorkspaceLayout layout;
    const schedules::ColStream<T> pass(shape_, blocks, choice.wanted, kernels.tile.cols, threads,
                                       &layout);
    schedules::WorkspaceMemory buffer;
    EXPECT_OK(layout.allocate(nullptr, &buffer));
    std::fill_n(static_cast<T*>(buffer.data()), layout.bytes() / index_t(sizeof(T)),
                std::numeric_limits<T>::quiet_NaN());
    pass.run(kernels, schedules::Trace(observer), operands, buffer.data());
    return out;
  }

  void check(const Choice& choice, const Results& out, const Blocks& blocks) const {
    const double allowed = limit(shape_.n, blocks.rho);
    const bool g_form = choice.form == Form::g;
    ref::Matrix<Wide> keys = bwd_.dA2;
    ref::Matrix<double> keys_unit = gauge_.dA2;
    if (choice.wanted.is_sum()) {
      for (std::size_t i = 0; i < keys.values.size(); ++i) {
        keys.values[i] += bwd_.dA3.values[i];
        keys_unit.values[i] += gauge_.dA3.values[i];
      }
    }
    if (choice.wanted.of_keys()) expect(out[0], keys, keys_unit, allowed);
    if (choice.wanted.of_values() && !choice.wanted.is_sum()) {
      expect(out[1], g_form ? bwd_.dA3 : bwd_.W, g_form ? gauge_.dA3 : gauge_.W, allowed);
    }
    if (choice.wanted.queries) {
      expect(out[2], bwd_.U, gauge_.U, std::max(allowed, limit(shape_.m, blocks.c)));
    }
  }

 private:
  static ref::Matrix<double> wide(const ref::Matrix<Wide>& m) { return ref::convert<double>(m); }
  // S and G may be read beyond their last row.
  static ref::Matrix<double> with_row(const ref::Matrix<double>& m) {
    ref::Matrix<double> more(m.rows + 1, m.cols);
    std::copy(m.values.begin(), m.values.end(), more.values.begin());
    std::fill_n(more.row(m.rows), m.cols, std::numeric_limits<double>::quiet_NaN());
    return more;
  }
  static void expect(const Padded<T>& out, const ref::Matrix<Wide>& wanted,
                     const ref::Matrix<double>& unit, double allowed) {
    const ref::Worst worst =
        ref::worst_ratio(out.values.data(), static_cast<std::size_t>(out.stride), wanted, unit);
    EXPECT_TRUE(worst.passes(allowed)) << to_string(worst) << ", allowed " << allowed;
    EXPECT_TRUE(out.untouched_between_rows());
  }

  LayerShape shape_;
  index_t padding_;
  ref::LayerInputs<double> inputs_;
  ref::Forward<Wide> fwd_;
  ref::Backward<Wide> bwd_;
  ref::Gauge gauge_;
  ref::Matrix<Wide> g_;
};

void check_counts(const KeyPass<float>& pass, const LayerShape& shape, const Choice& choice,
                  const Blocks& blocks, index_t M) {
  SCOPED_TRACE(describe(shape, choice, blocks) + " M=" + std::to_string(M));
  instruments::IoCounter counter;
  const auto out = pass.run(choice, blocks, odd_tile<float>(), 1, &counter);
  ASSERT_EQ(counter.violation(), "");
  const IoCost cost = theory::col_stream(shape, blocks, choice.wanted);
  ASSERT_EQ(counter.total().reads, cost.reads);
  ASSERT_EQ(counter.total().writes, cost.writes);
  ASSERT_EQ(counter.total().created, cost.created);
  ASSERT_EQ(counter.total().footprint, cost.footprint);
  ASSERT_EQ(counter.phases().size(), 1u);
  ASSERT_STREQ(counter.phases()[0].name, "col_stream");
  ASSERT_LE(cost.footprint, M);
  const theory::Bound bound =
      theory::key_gradients_bound(theory::AlgorithmClass::F, shape, choice.form, choice.wanted, M);
  ASSERT_LE(bound.words, static_cast<double>(cost.words()));
  pass.check(choice, out, blocks);
}

TEST(ColStream, CountsAreTheFormula) {
  RandomProblem random(50);
  int planned = 0, arbitrary = 0, once = 0;
  while ((planned < 2000 || arbitrary < 500) && !testing::Test::HasFailure()) {
    const LayerShape shape = random.shape(40, 14);
    const KeyPass<float> pass(ref::Kind::normal, shape, std::uint64_t(planned), 0);
    for (const Choice& choice : choices(shape.tie)) {
      const index_t least = plan::least_col_stream(shape, choice.form, choice.wanted);
      const index_t M = random.logarithmic(least, 30 * least);
      const Blocks blocks =
          plan::choose_col_stream(shape, choice.form, choice.wanted, M, odd_tile<float>().tile);
      check_counts(pass, shape, choice, blocks, M);
      once += blocks.c >= shape.m;
      ++planned;
      Blocks any;
      any.form = choice.form;
      any.c = random.logarithmic(1, 60);
      any.rho = random.logarithmic(1, 60);
      check_counts(pass, shape, choice, any,
                   theory::col_stream(shape, any, choice.wanted).footprint);
      ++arbitrary;
    }
  }
  EXPECT_GT(once, 100);  // with one pass the cost is compulsory
}

// One word less than the least is too little for any blocks, and the planner's figures are those of
// all gradients of the form.
TEST(ColStream, LeastFastMemory) {
  RandomProblem random(51);
  for (int round = 0; round < 300; ++round) {
    const LayerShape shape = random.shape(300, 100);
    for (const Form form : {Form::g, Form::h}) {
      const KeyGradients all = all_key_gradients(form, shape.tie);
      const Variant variant = {Pass::backward_keys, Schedule::col_stream, form};
      ASSERT_EQ(plan::least_fast_memory(variant, shape), plan::least_col_stream(shape, form, all));
      const index_t v = form == Form::g ? shape.d : shape.dv;
      const index_t per_key = all == KeyGradients::sum ? 2 * shape.d : 2 * (shape.d + v);
      ASSERT_EQ(plan::least_col_stream(shape, form, all), per_key + shape.d + v + 3);
      Blocks blocks;
      blocks.form = form;
      blocks.c = 1 + round % 70;
      blocks.rho = 1 + round % 50;
      const theory::ScheduleCost cost =
          theory::io_cost(Pass::backward_keys, Schedule::col_stream, shape, blocks);
      ASSERT_EQ(cost.total(), theory::col_stream(shape, blocks, all));
      ASSERT_LE(theory::lower_bound(Pass::backward_keys, theory::AlgorithmClass::F, shape,
                                    cost.total().footprint)
                    .words,
                static_cast<double>(cost.total().words()));
      // Four products of n x m x d or v, three of them with d.
      ASSERT_EQ(theory::fma_count(Pass::backward_keys, Schedule::col_stream, shape, blocks),
                shape.n * shape.m * (2 * shape.d + 2 * v));
    }
  }
}

// One problem, plan and table of the sweep below.
template <class T>
struct ValueCase {
  const KeyPass<T>& pass;
  const Choice& choice;
  const Blocks& blocks;
  const kernels::KernelTable<T>& table;
  std::size_t number;

  auto run(const Blocks& with, int threads) const {
    return pass.run(choice, with, table, threads, nullptr);
  }
};

template <class T>
void expect_same_bits(const std::array<Padded<T>, 3>& x, const std::array<Padded<T>, 3>& y,
                      std::size_t results) {
  for (std::size_t i = 0; i < results; ++i) {
    ASSERT_EQ(std::memcmp(x[i].values.data(), y[i].values.data(), x[i].values.size() * sizeof(T)),
              0);
  }
}

template <class T>
class ColStreamValues : public testing::Test {
 public:
  // Every shape, kind of values and set of gradients, with blocks for much and for little memory.
  template <class Check>
  void for_all_cases(const Check& check) {
    const auto tables = tables_under_test<T>();
    const LayerShape shapes[] = {{1, 1, 1, 1, Tie::none},     {33, 41, 19, 23, Tie::kv},
                                 {40, 40, 12, 7, Tie::all},   {97, 130, 40, 65, Tie::none},
                                 {300, 150, 33, 16, Tie::kv}, {70, 300, 130, 32, Tie::none}};
    std::uint64_t seed = 1;
    std::size_t cases = 0;
    for (const LayerShape& shape : shapes) {
      for (const ref::Kind kind : ref::all_kinds) {
        if (shape.n * shape.m > 5000 && kind != ref::Kind::normal && kind != ref::Kind::tiny)
          continue;
        ++seed;
        const KeyPass<T> pass(kind, shape, seed, index_t(seed % 3));
        for (const Choice& choice : choices(shape.tie)) {
          const kernels::KernelTable<T>& table = *tables[(++cases + seed) % tables.size()];
          const index_t least = plan::least_col_stream(shape, choice.form, choice.wanted);
          const index_t M = least * (cases % 3 == 0 ? 1 : cases % 3 == 1 ? 10 : 300);
          const Blocks blocks =
              plan::choose_col_stream(shape, choice.form, choice.wanted, M, table.tile);
          SCOPED_TRACE(describe(shape, choice, blocks) + " " + ref::name_of(kind) +
                       " isa=" + name_of(table.tile.isa));
          check(ValueCase<T>{pass, choice, blocks, table, cases});
          if (this->HasFailure()) return;
        }
      }
    }
    EXPECT_GE(cases, 396u);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ColStreamValues, Types);

TYPED_TEST(ColStreamValues, AreTheOraclesForEveryBlockOfKeys) {
  this->for_all_cases([](const ValueCase<TypeParam>& c) {
    const auto planned = c.run(c.blocks, 1);
    c.pass.check(c.choice, planned, c.blocks);
    // The keys of a block do not change sums over queries.
    Blocks other = c.blocks;
    other.c = 1 + index_t(c.number % 50);
    expect_same_bits(planned, c.run(other, 1), 2);
  });
}

TYPED_TEST(ColStreamValues, AreTheSameForEveryNumberOfThreads) {
  this->for_all_cases([](const ValueCase<TypeParam>& c) {
    const auto one = c.run(c.blocks, 1);
    for (const int threads : some_thread_counts(c.number))
      expect_same_bits(one, c.run(c.blocks, threads), 3);
  });
}

}  // namespace
}  // namespace ioattn_test
