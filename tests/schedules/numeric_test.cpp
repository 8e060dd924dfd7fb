// Every schedule against the oracle: inputs that are hard in different ways, ragged shapes, tied
// operands, padded rows, several M, every instruction set of this CPU and the odd tile. The bound
// on the error comes from the conditioning (reference/gauge.hpp). Outputs are poisoned first.

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <type_traits>

#include "plan/blocks/blocking.hpp"
#include "reference/cases.hpp"
#include "reference/gauge.hpp"
#include "schedules/padded.hpp"
#include "schedules/rounding_limit.hpp"
#include "schedules/schedules.hpp"
#include "schedules/tables.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;
namespace ref = ioattn_reference;
using ioattn_test::limit;  // of one sum

// Of the products around the scores in backward passes that pass them through memory.
double thin_limit(const Variant& v, const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  const double values = v.form == Form::h ? limit(d, blocks.h) : limit(e, blocks.g);
  const double thin = std::max(values, limit(e, blocks.w));
  return v.products == Products::fused ? std::max(thin, limit(n, blocks.rho))
                                       : std::max({thin, limit(d, blocks.s), limit(n, blocks.x)});
}

double limit(const Variant& v, const LayerShape& shape, const Blocks& blocks) {
  const auto [n, m, d, e, tie, mask] = shape;
  switch (v.schedule) {
    case Schedule::naive: return ref::pass_ratio;  // sums of 256 terms or the whole
    case Schedule::paper_small: return limit(std::max({n, m, d}), blocks.r);
    case Schedule::paper_large: {
      if (v.pass == Pass::forward) return limit(m, blocks.c);
      // dX: one term per pair of blocks, each a sum over a block of queries and one of keys
      const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m);
      return limit(ceil_div(n, r) * ceil_div(m, c) * std::max(r, c), std::max(r, c));
    }
    case Schedule::stationary:
    case Schedule::score_stored: {
      if (v.pass == Pass::forward) {
        return std::max({limit(d, blocks.s.depth), limit(d, blocks.f.depth),
                         limit(m, blocks.f.cols), limit(m, blocks.u.depth),
                         limit(d, v.form == Form::h ? blocks.h.depth : blocks.x.depth)});
      }
      const index_t thin = v.form == Form::h ? e : d;
      return std::max({limit(e, blocks.w), limit(d, blocks.s.depth),
                       v.form == Form::h ? limit(d, blocks.h.depth) : limit(e, blocks.g.depth),
                       limit(d, blocks.f.depth), limit(thin, blocks.q.depth),
                       limit(m, blocks.u.depth), limit(n, blocks.x.depth)});
    }
    case Schedule::row_stream:
      if (v.pass == Pass::forward) {
        const ProductBlocks& values = v.form == Form::h ? blocks.h : blocks.x;
        return v.products == Products::fused
                   ? std::max(limit(m, blocks.c), limit(n, blocks.rho))
                   : std::max({limit(m, blocks.c), limit(d, blocks.s), limit(d, values)});
      }
      if (v.products == Products::stored) {
        return std::max(limit(m, blocks.c), thin_limit(v, shape, blocks));
      }
      return std::max(limit(m, blocks.c), limit(n, blocks.rho));
    case Schedule::q_stored:
      return std::max({limit(m, blocks.c), limit(v.form == Form::h ? e : d, blocks.q),
                       thin_limit(v, shape, blocks)});
    case Schedule::half_dim:
      return std::max({limit(m, blocks.c), limit(v.form == Form::h ? e : d, blocks.q),
                       limit(d / 2, blocks.f), limit(m, blocks.u), thin_limit(v, shape, blocks)});
    case Schedule::weight_resident: {
      // dX as above; T: one term per sub-block of queries
      const index_t r = std::min(blocks.r, n), c = std::min(blocks.c, m);
      return std::max(limit(ceil_div(n, r) * ceil_div(m, c) * c, c), limit(r, blocks.rho));
    }
    case Schedule::resident: return limit(n, blocks.r);
    case Schedule::tile_fused:
      if (v.pass == Pass::forward) {
        return std::max(
            {limit(m, blocks.c), limit(d, blocks.w), limit(d, blocks.s), limit(d, blocks.h)});
      }
      return std::max(
          {limit(m, blocks.c), limit(std::max(d, e), blocks.w), thin_limit(v, shape, blocks)});
    case Schedule::col_stream: return limit(n, blocks.rho);
  }
  return 0;
}

template <class T>
class Numeric : public testing::Test {
 protected:
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

  // All schedules at one M on one case.
  void check(ref::Kind kind, const ref::CaseShape& size, std::uint64_t seed, index_t padding,
             index_t M_factor) {
    const ref::LayerInputs<double> inputs = ref::make_case(kind, size, seed);
    const ref::LayerInputs<Wide> wide = ref::convert<Wide>(inputs);
    const ref::Forward<Wide> fwd = ref::forward(wide);
    const ref::Backward<Wide> bwd = ref::backward(wide, fwd);
    const ref::Gauge gauge = ref::make_gauge<T>(wide, fwd);

    const Padded<T> a1(inputs.A1, padding), a2(inputs.A2, padding), a3(inputs.A3, padding);
    const Padded<T> x(inputs.X, padding), y(inputs.Y, padding), d_o(inputs.dO, padding);
    LayerInputs<T> in = {a1.view(), a2.view(), a3.view(), x.view(), y.view()};
    if (size.ties != ref::Ties::none) in.a3 = in.a2;
    if (size.ties == ref::Ties::all) in.a2 = in.a3 = in.a1;
    const LayerShape shape = shape_of(in);
    // What a backward pass is given: the reference's results, rounded.
    const Padded<T> o_in(ref::convert<double>(fwd.O), padding);
    const Padded<T> lse_in(ref::convert<double>(fwd.L), 0);

    for (const Variant& v : variants()) {
      if (v.pass == Pass::backward_keys) continue;  // col_stream_test
      const kernels::KernelTable<T>& table = *tables_[choice_() % tables_.size()];
      const index_t M =
          plan::least_fast_memory(v, shape) * M_factor + static_cast<index_t>(seed % 7);
      Blocks blocks;
      ASSERT_TRUE(plan::choose_blocks(v, false, shape, M, table.tile, &blocks));
      if (v.schedule == Schedule::tile_fused && v.pass == Pass::backward && choice_() % 2 == 1)
        blocks.parked = true;
      SCOPED_TRACE(std::string(name_of(v.pass)) + " " + to_text(v) + " " + ref::name_of(kind) +
                   " " + to_text(LayerProblem{shape, dtype_of<T>::value}) + " padding " +
                   std::to_string(padding) + " M=" + std::to_string(M) +
                   " isa=" + name_of(table.tile.isa) + " tile=" + std::to_string(table.tile.rows) +
                   "x" + std::to_string(table.tile.cols) + " seed=" + std::to_string(seed));
      const double allowed = limit(v, shape, blocks);
      Padded<T> o(shape.n, shape.dv, padding), lse(shape.n, 1, 0), dx(shape.d, shape.d, padding);
      const int threads = 1 + static_cast<int>(choice_() % 2);
      if (v.pass == Pass::forward) {
        ASSERT_OK(schedules::run_forward(
            v.schedule,
            schedules::ForwardTask<T>{
                {&table, threads, nullptr}, shape, in, o.view(), lse.values.data(), blocks}));
        expect_close("O", o, fwd.O, gauge.O, allowed);
        expect_accurate("O", kind, size, o, fwd.O, allowed);
        expect_close("LSE", lse, fwd.L, gauge.L, allowed);
      } else {
        ASSERT_OK(schedules::run_backward(v.schedule,
                                          schedules::BackwardTask<T>{{&table, threads, nullptr},
                                                                     shape,
                                                                     in,
                                                                     d_o.view(),
                                                                     o_in.view(),
                                                                     lse_in.values.data(),
                                                                     dx.view(),
                                                                     blocks}));
        expect_close("dX", dx, bwd.dX, gauge.dX, allowed);
        expect_accurate("dX", kind, size, dx, bwd.dX, allowed);
      }
      ++cases_;
    }
  }

  std::size_t cases_ = 0;
  std::size_t accurate_ = 0;

 private:
  void expect_close(const char* name, const Padded<T>& out, const ref::Matrix<Wide>& wanted,
                    const ref::Matrix<double>& unit, double allowed) {
    const ref::Worst worst =
        ref::worst_ratio(out.values.data(), static_cast<std::size_t>(out.stride), wanted, unit);
    EXPECT_TRUE(worst.passes(allowed))
        << name << ": " << to_string(worst) << ", allowed " << allowed;
    EXPECT_TRUE(out.untouched_between_rows()) << name << " was written between its rows";
  }

  // On well-conditioned inputs the error is also small against the largest entry: much the sharper
  // check there.
  void expect_accurate(const char* name, ref::Kind kind, const ref::CaseShape& size,
                       const Padded<T>& out, const ref::Matrix<Wide>& wanted, double allowed) {
    const bool enough_rows = std::min(size.n, size.m) >= 16;
    if (size.m < 2 || !(kind == ref::Kind::uniform || kind == ref::Kind::tiny ||
                        (kind == ref::Kind::normal && enough_rows))) {
      return;
    }
    const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
    EXPECT_LE(
        ref::max_relative_error(out.values.data(), static_cast<std::size_t>(out.stride), wanted),
        ref::relative_limit * eps * allowed / ref::pass_ratio)
        << name;
    ++accurate_;
  }

  const std::vector<const kernels::KernelTable<T>*> tables_ = tables_under_test<T>();
  std::mt19937 choice_;  // not in turns, which meet a period of the cases
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Numeric, Types);

TYPED_TEST(Numeric, SmallCases) {
  const ref::CaseShape shapes[] = {{1, 1, 1, 1, ref::Ties::none},
                                   {5, 9, 3, 4, ref::Ties::none},
                                   {17, 8, 11, 2, ref::Ties::keys_values},
                                   {12, 12, 6, 6, ref::Ties::all},
                                   {33, 41, 19, 23, ref::Ties::keys_values}};
  std::uint64_t seed = 1;
  for (const ref::CaseShape& shape : shapes)
    for (const ref::Kind kind : ref::all_kinds)
      for (const index_t factor : {1, 3, 40}) {
        this->check(kind, shape, seed, static_cast<index_t>(seed % 3), factor);
        ++seed;
      }
  std::cout << this->cases_ << " cases\n";
  EXPECT_GE(this->cases_, 1000u);
  EXPECT_GE(this->accurate_, 200u);
}

TYPED_TEST(Numeric, LargerCases) {
  const ref::CaseShape shapes[] = {{200, 180, 64, 64, ref::Ties::none},
                                   {97, 300, 40, 96, ref::Ties::none},
                                   {150, 150, 130, 32, ref::Ties::all},
                                   {64, 300, 150, 17, ref::Ties::keys_values}};
  std::uint64_t seed = 1000;
  for (const ref::CaseShape& shape : shapes)
    for (const ref::Kind kind : ref::all_kinds) {
      this->check(kind, shape, seed, static_cast<index_t>(seed % 2), seed % 3 == 0 ? 4 : 60);
      ++seed;
    }
  std::cout << this->cases_ << " cases\n";
}

}  // namespace
}  // namespace ioattn_test
