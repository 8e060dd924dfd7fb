// Masks, scales and batches: forward passes against the oracle, what is hidden stays out even if it
// is NaN, and an entry of a batch is what it is alone.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "instruments/io_counter.hpp"
#include "plan/blocks/blocking.hpp"
#include "plan/layer/gradient_planner.hpp"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "schedules/gradient_case.hpp"
#include "schedules/odd_tile.hpp"
#include "schedules/random_problem.hpp"
#include "schedules/rounding_limit.hpp"
#include "schedules/schedules.hpp"
#include "schedules/tables.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"
#include "theory/gradients_cost.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;

constexpr Form forms[] = {Form::g, Form::h};
constexpr Products kinds_of_products[] = {Products::fused, Products::stored};

template <class T>
struct ForwardResults {
  Padded<T> o, lse;
};

// A forward pass of row_stream with planned blocks; `batch` entries.
template <class T>
ForwardResults<T> forward(const LayerInputs<T>& in, const Blocks& blocks,
                          const kernels::KernelTable<T>& table, int threads,
                          Observer* observer = nullptr) {
  const LayerShape shape = shape_of(in);
  ForwardResults<T> results = {Padded<T>(in.batch * shape.n, shape.dv, 1),
                               Padded<T>(in.batch, shape.n, 0)};
  schedules::ForwardTask<T> task;
  task.shape = shape;
  task.in = in;
  task.o = results.o.view();
  task.lse = results.lse.values.data();
  task.blocks = blocks;
  task.kernels = &table;
  task.threads = threads;
  task.observer = observer;
  EXPECT_OK(schedules::run_forward(Schedule::row_stream, task));
  return results;
}

template <class T>
Blocks blocks_of(Pass pass, Form form, Products products, const LayerShape& shape, index_t factor,
                 const kernels::KernelTable<T>& table) {
  const Variant v = {pass, Schedule::row_stream, form, products};
  Blocks blocks;
  EXPECT_TRUE(plan::choose_blocks(v, false, shape, plan::least_fast_memory(v, shape) * factor,
                                  table.tile, &blocks));
  return blocks;
}

template <class T>
bool same_bits(const Padded<T>& a, const Padded<T>& b) {
  return a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(T)) == 0;
}

template <class T>
class Masked : public testing::Test {
 protected:
  // At random: in turns they would meet a period of the cases.
  const kernels::KernelTable<T>& any_table() { return *tables_[choice_() % tables_.size()]; }
  auto any_thread_counts() { return some_thread_counts(choice_() % 2); }

 private:
  std::vector<const kernels::KernelTable<T>*> tables_ = tables_under_test<T>();
  std::mt19937 choice_;
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Masked, Types);

TYPED_TEST(Masked, ForwardIsTheOracles) {
  using T = TypeParam;
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  RandomProblem random(71);
  int hidden_rows = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const LayerShape sizes = random.shape(90, 20);
    const Mask mask = random.mask(sizes.n, sizes.m);
    ref::LayerInputs<double> inputs =
        ref::make_case(ref::all_kinds[seed % 8],
                       {std::size_t(sizes.n), std::size_t(sizes.m), std::size_t(sizes.d),
                        std::size_t(sizes.dv), ref::Ties::none},
                       seed);
    if (mask.first > -Mask::unbounded) inputs.first_key = mask.first;
    if (mask.last < Mask::unbounded) inputs.last_key = mask.last;
    if (seed % 3 == 0) inputs.scale = 0.3;
    const ref::LayerInputs<Wide> wide = ref::convert<Wide>(inputs);
    const ref::Forward<Wide> wanted = ref::forward(wide);
    const ref::Gauge gauge = ref::make_gauge<T>(wide, wanted);
    const Padded<T> a1(inputs.A1, 1), a2(inputs.A2, 0), a3(inputs.A3, 2), x(inputs.X, 0),
        y(inputs.Y, 1);
    const LayerInputs<T> in = {a1.view(), a2.view(), a3.view(),   x.view(),
                               y.view(),  mask,      inputs.scale};
    const LayerShape shape = shape_of(in);
    hidden_rows += seeing_queries(shape).size() < shape.n;
    for (const Form form : forms) {
      for (const Products products : kinds_of_products) {
        const kernels::KernelTable<T>& table = this->any_table();
        const Blocks blocks =
            blocks_of(Pass::forward, form, products, shape, random.logarithmic(1, 100), table);
        SCOPED_TRACE(to_text(LayerProblem{shape, dtype_of<T>::value}) +
                     " r=" + std::to_string(blocks.r) + " c=" + std::to_string(blocks.c) +
                     " rho=" + std::to_string(blocks.rho));
        const ForwardResults<T> one = forward(in, blocks, table, 1);
        const double allowed =
            std::max({limit(shape.m, blocks.c), limit(shape.d, blocks.s.depth),
                      limit(shape.d, blocks.h.depth), limit(shape.d, blocks.x.depth)});
        const auto check = [&](const char* name, const Padded<T>& out, const auto& reference,
                               const ref::Matrix<double>& unit) {
          const ref::Worst worst = ref::worst_ratio(
              out.values.data(), static_cast<std::size_t>(out.stride), reference, unit);
          EXPECT_TRUE(worst.passes(allowed)) << name << ": " << to_string(worst);
        };
        check("O", one.o, wanted.O, gauge.O);
        Padded<T> lse = one.lse;
        lse.stride = 1;
        check("LSE", lse, wanted.L, gauge.L);
        EXPECT_TRUE(one.o.untouched_between_rows());
        for (const int threads : this->any_thread_counts()) {
          const ForwardResults<T> other = forward(in, blocks, table, threads);
          EXPECT_TRUE(same_bits(one.o, other.o) && same_bits(one.lse, other.lse)) << threads;
        }
        if (this->HasFailure()) return;
      }
    }
  }
  EXPECT_GT(hidden_rows, 10);
}

// Rows of keys become NaN, or rows of queries: what does not see them keeps its bits.
TYPED_TEST(Masked, WhatIsHiddenDoesNotLeak) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  RandomProblem random(72);
  int rows_kept = 0, rows_lost = 0, keys_kept = 0, sums_kept = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const kernels::KernelTable<T>& table = this->any_table();
    const index_t n = random.uniform(2, 170), m = random.uniform(2, 170), d = 7, e = 5;
    ref::LayerInputs<double> inputs = ref::make_case(
        ref::Kind::normal, {std::size_t(n), std::size_t(m), 7, 5, ref::Ties::none}, seed);
    const Mask mask = random.mask(n, m);
    if (mask.first > -Mask::unbounded) inputs.first_key = mask.first;
    if (mask.last < Mask::unbounded) inputs.last_key = mask.last;
    const GradientCase<T> clean(inputs, ref::Ties::none, 3, 0);
    const bool of_key = seed % 2 == 0;
    const index_t bad = random.uniform(0, (of_key ? m : n) - 1);
    ref::LayerInputs<double> dirty_inputs = inputs;
    const double double_nan = std::numeric_limits<double>::quiet_NaN();
    const auto spoil = [&](ref::Matrix<double>* matrix) {
      for (std::size_t k = 0; k < matrix->cols; ++k) (*matrix)(std::size_t(bad), k) = double_nan;
    };
    const std::uint64_t spared = seed / 2 % 3;  // of two matrices, or none
    if (spared != 1) spoil(of_key ? &dirty_inputs.A2 : &dirty_inputs.A1);
    if (spared != 2) spoil(of_key ? &dirty_inputs.A3 : &dirty_inputs.dO);
    const GradientCase<T> dirty(dirty_inputs, ref::Ties::none, 3, 0);
    const LayerShape shape = clean.shape();
    const auto sees_bad = [&](index_t row, bool is_query) {
      const index_t query = is_query ? row : bad, key = is_query ? bad : row;
      return key >= query + mask.first && key <= query + mask.last;
    };

    for (const Form form : forms) {
      for (const Products products : kinds_of_products) {
        const Blocks blocks =
            blocks_of(Pass::forward, form, products, shape, random.logarithmic(1, 60), table);
        const ForwardResults<T> good = forward(clean.inputs(), blocks, table, 1);
        const ForwardResults<T> bad_results = forward(dirty.inputs(), blocks, table, 1);
        for (index_t i = 0; i < n; ++i) {
          const bool same = std::memcmp(good.o.view().row(i), bad_results.o.view().row(i),
                                        std::size_t(e) * sizeof(T)) == 0 &&
                            std::memcmp(&good.lse.values[std::size_t(i)],
                                        &bad_results.lse.values[std::size_t(i)], sizeof(T)) == 0;
          const bool touched =
              of_key ? sees_bad(i, true) : i == bad && !mask.of_row(i, m).is_empty();
          if (of_key || i != bad) {
            EXPECT_EQ(same, !touched) << i;
          }
          (touched ? rows_lost : rows_kept) += 1;
        }
      }
    }

    // Gradients: rows of dA1, dA2, dA3 of whoever does not see it; sums if nobody does.
    const GradientSet set = {true, true, true, true, true, false, false, false, 0};
    for (const Form form : forms) {
      GradientSet some = set;
      some.dY = form == Form::h;
      plan::LayerRequest request;
      request.problem.shape = shape;
      request.M = random.logarithmic(400, 20000);
      request.level = "M";
      request.tile = table.tile;
      plan::LayerPlan plan;
      ASSERT_OK(plan::make_gradient_plan(request, some, &plan));
      const Gradients<T> good = clean.run(some, plan.blocks, table, 2, nullptr);
      Gradients<T> other = clean.outputs(some);
      schedules::GradientTask<T> task;
      task.shape = shape;
      task.in = dirty.inputs();
      // O and LSE of rows that see it are NaN, as a forward pass leaves them.
      Padded<T> o = clean.o(), lse = clean.lse();
      const MatrixView<const T> d_o = (of_key ? clean : dirty).d_o().view();
      for (index_t i = 0; i < n; ++i) {
        const bool touched = of_key ? sees_bad(i, true) : i == bad && !mask.of_row(i, m).is_empty();
        if (!touched) continue;
        lse.values[std::size_t(i)] = nan;
        for (index_t k = 0; k < e; ++k) o.view().row(i)[k] = nan;
      }
      task.d_o = d_o;
      task.o = o.view();
      task.lse = lse.values.data();
      task.out = clean.views(&other);
      task.blocks = plan.blocks;
      task.kernels = &table;
      ASSERT_OK(schedules::layer_gradients(task));
      const auto same_row = [&](const char* name, index_t i) {
        return std::memcmp(good.at(name).view().row(i), other.at(name).view().row(i),
                           std::size_t(d) * sizeof(T)) == 0;
      };
      bool seen = false;
      for (index_t i = 0; i < (of_key ? n : m); ++i) {
        const bool touched = sees_bad(i, of_key);
        seen = seen || touched;
        if (touched) continue;
        if (of_key) {
          EXPECT_TRUE(same_row("dA1", i)) << i;
        } else {
          // Keys that no bad query sees.
          EXPECT_TRUE(same_row("dA2", i) && same_row("dA3", i)) << i;
        }
        ++keys_kept;
      }
      if (!seen) {
        for (const char* name : {"dX", "dY"}) {
          if (name[1] == 'Y' && form != Form::h) continue;
          EXPECT_TRUE(same_bits(good.at(name), other.at(name))) << name;
        }
        ++sums_kept;
      }
    }
    if (this->HasFailure()) return;
  }
  EXPECT_GT(rows_kept, 1000);
  EXPECT_GT(rows_lost, 500);
  EXPECT_GT(keys_kept, 500);
  EXPECT_GT(sums_kept, 3);
}

// dX alone, fused: rows that see no key take no part in the sum either.
TYPED_TEST(Masked, RowsThatSeeNothingStayOutOfTheSum) {
  using T = TypeParam;
  const index_t n = 40, m = 25, d = 7;
  ref::LayerInputs<double> inputs =
      ref::make_case(ref::Kind::normal, {std::size_t(n), std::size_t(m), 7, 5, ref::Ties::none}, 3);
  inputs.last_key = m - n;  // causal, bottom-right: the first 15 queries see nothing
  const GradientCase<T> clean(inputs, ref::Ties::none, 1, 0);
  for (std::size_t i = 0; i < std::size_t(n - m); ++i)
    for (std::size_t k = 0; k < std::size_t(d); ++k)
      inputs.A1(i, k) = std::numeric_limits<double>::infinity();
  const GradientCase<T> dirty(inputs, ref::Ties::none, 1, 0);
  for (const Form form : forms) {
    for (const index_t factor : {1, 4, 50}) {
      LayerBlocks blocks;
      blocks.rows =
          blocks_of(Pass::backward, form, Products::fused, clean.shape(), factor, odd_tile<T>());
      const GradientSet dx_alone = {.dX = true};
      const Gradients<T> good = clean.run(dx_alone, blocks, odd_tile<T>(), 1, nullptr);
      Gradients<T> other = clean.outputs(dx_alone);
      schedules::GradientTask<T> task;
      task.shape = clean.shape();
      task.in = dirty.inputs();
      task.d_o = clean.d_o().view();
      task.o = clean.o().view();
      task.lse = clean.lse().values.data();
      task.out = clean.views(&other);
      task.blocks = blocks;
      task.kernels = &odd_tile<T>();
      ASSERT_OK(schedules::layer_gradients(task));
      EXPECT_TRUE(same_bits(good.at("dX"), other.at("dX")));
      clean.check(good, limit(clean.shape(), dx_alone, blocks));
    }
  }
}

// The rows of all entries, one after the other.
template <class T>
Padded<T> stacked(const std::vector<ref::LayerInputs<double>>& entries,
                  const ref::Matrix<double> ref::LayerInputs<double>::*matrix) {
  ref::Matrix<double> all((entries[0].*matrix).rows * entries.size(), (entries[0].*matrix).cols);
  auto at = all.values.begin();
  for (const auto& entry : entries) {
    at = std::copy((entry.*matrix).values.begin(), (entry.*matrix).values.end(), at);
  }
  return Padded<T>(all, 1);
}

TYPED_TEST(Masked, EntriesOfABatchAreThoseAlone) {
  using T = TypeParam;
  RandomProblem random(73);
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const kernels::KernelTable<T>& table = this->any_table();
    const index_t n = random.uniform(1, 50), m = random.uniform(1, 50);
    const index_t d = random.uniform(1, 20), e = random.uniform(1, 20);
    const index_t batch = random.uniform(2, 4);
    std::vector<ref::LayerInputs<double>> entries;
    for (index_t b = 0; b < batch; ++b) {
      entries.push_back(ref::make_case(
          ref::Kind::normal,
          {std::size_t(n), std::size_t(m), std::size_t(d), std::size_t(e), ref::Ties::none},
          seed * 10 + std::uint64_t(b)));
    }
    using In = ref::LayerInputs<double>;
    const Padded<T> a1 = stacked<T>(entries, &In::A1), a2 = stacked<T>(entries, &In::A2),
                    a3 = stacked<T>(entries, &In::A3), d_o = stacked<T>(entries, &In::dO);
    const Padded<T> x(entries[0].X, 1), y(entries[0].Y, 1);
    const auto first_rows = [](const Padded<T>& all, index_t rows) {
      MatrixView<const T> view = all.view();
      view.rows = rows;
      return view;
    };
    const Mask mask = seed % 2 == 0 ? Mask{} : random.mask(n, m);
    const double scale = seed % 3 == 0 ? 1 : 0.25;
    LayerInputs<T> in = {first_rows(a1, n),
                         first_rows(a2, m),
                         first_rows(a3, m),
                         x.view(),
                         y.view(),
                         mask,
                         scale,
                         batch};
    const LayerShape shape = shape_of(in);
    const Blocks blocks = blocks_of(Pass::forward, Form::h, Products::stored, shape,
                                    random.logarithmic(1, 60), table);
    instruments::IoCounter counter;
    const ForwardResults<T> all = forward(in, blocks, table, 1, &counter);
    ASSERT_EQ(counter.violation(), "");
    const theory::Batch how = {batch, scale != 1};
    const theory::ScheduleCost cost =
        theory::forward_cost(Schedule::row_stream, shape, blocks, how);
    ASSERT_EQ(int(counter.phases().size()), cost.phase_count);
    EXPECT_EQ(counter.total().reads, cost.total().reads);
    EXPECT_EQ(counter.total().writes, cost.total().writes);
    EXPECT_EQ(counter.total().created, cost.total().created);
    EXPECT_LE(theory::lower_bound(Pass::forward, theory::AlgorithmClass::F, shape,
                                  counter.total().footprint, batch)
                  .words,
              double(counter.total().words()));

    GradientSet set = {true, true, true, true, true, false, true, true, 3};
    plan::LayerRequest request;
    request.problem.shape = shape;
    request.M = random.logarithmic(600, 20000);
    request.level = "M";
    request.tile = table.tile;
    plan::LayerPlan plan;
    ASSERT_OK(plan::make_gradient_plan(request, set, &plan));
    const Padded<T> w_q(ref::random_matrix(std::size_t(d), 3, 1), 0),
        w_k(ref::random_matrix(std::size_t(d), 3, 2), 0);
    struct Out {
      Padded<T> dx, dy, da1, da2, da3, dw_q, dw_k;
    };
    const auto gradients = [&](const LayerInputs<T>& inputs, MatrixView<const T> given_d_o,
                               MatrixView<const T> o, const T* lse, bool weights, int threads,
                               Observer* observer) {
      const index_t b = inputs.batch;
      Out out = {Padded<T>(d, d, 1),     Padded<T>(d, e, 1),     Padded<T>(b * n, d, 1),
                 Padded<T>(b * m, d, 1), Padded<T>(b * m, d, 1), Padded<T>(d, 3, 1),
                 Padded<T>(d, 3, 1)};
      schedules::GradientTask<T> task;
      task.shape = shape;
      task.in = inputs;
      task.d_o = given_d_o;
      task.o = o;
      task.lse = lse;
      const auto entry_rows = [](Padded<T>* all_rows, index_t rows) {
        MatrixView<T> view = all_rows->view();
        view.rows = rows;
        return view;
      };
      task.out.dx = out.dx.view();
      task.out.dy = out.dy.view();
      task.out.da1 = entry_rows(&out.da1, n);
      task.out.da2 = entry_rows(&out.da2, m);
      task.out.da3 = entry_rows(&out.da3, m);
      if (weights) {
        task.out.dw_q = out.dw_q.view();
        task.out.dw_k = out.dw_k.view();
      }
      task.out.w_q = w_q.view();
      task.out.w_k = w_k.view();
      task.blocks = plan.blocks;
      task.kernels = &table;
      task.threads = threads;
      task.observer = observer;
      EXPECT_OK(schedules::layer_gradients(task));
      return out;
    };
    instruments::IoCounter gradient_counter;
    const Out together = gradients(in, first_rows(d_o, n), first_rows(all.o, n),
                                   all.lse.values.data(), true, 1, &gradient_counter);
    ASSERT_EQ(gradient_counter.violation(), "");
    const theory::ScheduleCost gradient_cost = theory::gradients_cost(shape, set, plan.blocks, how);
    ASSERT_EQ(int(gradient_counter.phases().size()), gradient_cost.phase_count);
    for (int i = 0; i < gradient_cost.phase_count; ++i) {
      const auto& counted = gradient_counter.phases()[std::size_t(i)];
      const theory::PhaseCost& formula = gradient_cost.phases[std::size_t(i)];
      ASSERT_STREQ(counted.name, formula.name);
      EXPECT_EQ(counted.count.reads, formula.cost.reads) << formula.name;
      EXPECT_EQ(counted.count.writes, formula.cost.writes) << formula.name;
      EXPECT_EQ(counted.count.created, formula.cost.created) << formula.name;
      EXPECT_LE(counted.count.footprint, formula.cost.footprint) << formula.name;
    }
    const Out parallel = gradients(in, first_rows(d_o, n), first_rows(all.o, n),
                                   all.lse.values.data(), true, 3, nullptr);
    EXPECT_TRUE(same_bits(together.dx, parallel.dx) && same_bits(together.dw_k, parallel.dw_k));

    // Alone: the same rows, and sums that add up in the order of the entries.
    Padded<T> dx_sum(d, d, 0);
    std::fill(dx_sum.values.begin(), dx_sum.values.end(), T(0));
    for (index_t b = 0; b < batch; ++b) {
      LayerInputs<T> one = in;
      one.batch = 1;
      const auto rows_from = [b](MatrixView<const T> view, index_t rows) {
        view.data += b * rows * view.stride;
        return view;
      };
      one.a1 = rows_from(in.a1, n);
      one.a2 = rows_from(in.a2, m);
      one.a3 = rows_from(in.a3, m);
      const ForwardResults<T> alone = forward(one, blocks, table, 2);
      const auto same_rows = [&](const Padded<T>& some, const Padded<T>& of_all, index_t rows,
                                 index_t cols) {
        for (index_t i = 0; i < rows; ++i) {
          if (std::memcmp(some.view().row(i), of_all.view().row(b * rows + i),
                          std::size_t(cols) * sizeof(T)) != 0) {
            return false;
          }
        }
        return true;
      };
      EXPECT_TRUE(same_rows(alone.o, all.o, n, e));
      EXPECT_TRUE(same_rows(alone.lse, all.lse, 1, n));
      // The scale of the sum is taken at its end: here it is a power of two.
      const Out part =
          gradients(one, rows_from(first_rows(d_o, n), n), rows_from(first_rows(all.o, n), n),
                    all.lse.values.data() + b * n, false, 1, nullptr);
      EXPECT_TRUE(same_rows(part.da1, together.da1, n, d));
      EXPECT_TRUE(same_rows(part.da2, together.da2, m, d));
      EXPECT_TRUE(same_rows(part.da3, together.da3, m, d));
      for (index_t i = 0; i < d; ++i)
        for (index_t k = 0; k < d; ++k) dx_sum.view().row(i)[k] += part.dx.view().row(i)[k];
    }
    for (index_t i = 0; i < d; ++i)
      for (index_t k = 0; k < d; ++k)
        EXPECT_EQ(dx_sum.view().row(i)[k], together.dx.view().row(i)[k]);
    if (this->HasFailure()) return;
  }
}

}  // namespace
}  // namespace ioattn_test
