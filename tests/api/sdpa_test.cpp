// The C functions of SDPA: right in every layout and for every mask, group and offset; partial
// results merge; nothing hidden leaks.

#include "api/behind_line.hpp"
#include "api/isa_variable.hpp"
#include "api/sdpa_call.hpp"
#include "ioattn/ioattn.hpp"
#include "schedules/thread_counts.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

namespace ioattn_test {
namespace {

template <class T>
class Sdpa : public testing::Test {};
TYPED_TEST_SUITE(Sdpa, BothTypes);

struct Case {
  SdpaSizes sizes;
  ioattn_mask mask = IOATTN_MASK_NONE;
  std::int64_t left = 0, right = 0, q_offset = 0, k_offset = 0;
  double scale = 0;
};
const Case cases[] = {{{1, 1, 1, 33, 47, 16, 16}},
                      {{2, 6, 2, 70, 45, 24, 20}},
                      {{1, 1, 1, 300, 290, 64, 64}},
                      {{2, 3, 3, 40, 40, 9, 17}, IOATTN_MASK_CAUSAL_TOP_LEFT},
                      {{1, 4, 1, 30, 66, 12, 7}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0, 0.25},
                      {{1, 4, 2, 66, 30, 12, 7}, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT},
                      {{2, 2, 1, 50, 60, 8, 8}, IOATTN_MASK_WINDOW_TOP_LEFT, 5, 2},
                      {{1, 2, 2, 50, 60, 8, 8}, IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 7, -1},
                      {{1, 2, 2, 50, 60, 8, 8}, IOATTN_MASK_WINDOW_BOTTOM_RIGHT, -1, 0},
                      {{1, 2, 1, 25, 40, 8, 8}, IOATTN_MASK_CAUSAL_TOP_LEFT, 0, 0, 30, 10},
                      {{1, 2, 1, 25, 40, 8, 8}, IOATTN_MASK_WINDOW_TOP_LEFT, 3, 3, 10, 20},
                      {{1, 2, 1, 25, 40, 8, 8}, IOATTN_MASK_NONE, 0, 0, -7, 20, -0.6}};

void apply(const Case& c, ioattn_sdpa_problem* problem) {
  problem->mask = c.mask;
  problem->window_left = c.left;
  problem->window_right = c.right;
  problem->q_offset = c.q_offset;
  problem->k_offset = c.k_offset;
  problem->scale = c.scale;
}

TYPED_TEST(Sdpa, IsTheOraclesInEveryLayout) {
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    for (const Layout layout : reference::all_layouts) {
      const std::string trace =
          "case " + std::to_string(i) + " layout " + std::to_string(int(layout));
      SCOPED_TRACE(trace);
      SdpaCall<TypeParam> call(cases[i].sizes, layout, i);
      apply(cases[i], &call.problem);
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      call.expect_forward();
      EXPECT_TRUE(call.gradients_untouched());
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      call.expect_backward();
    }
  }
}

TYPED_TEST(Sdpa, BitsDoNotDependOnThreads) {
  for (const Case& c : {cases[1], cases[2], cases[4], cases[6]}) {
    std::vector<TypeParam> one;
    for (const int threads : thread_counts) {
      SdpaCall<TypeParam> call(c.sizes, Layout::bshd);
      apply(c, &call.problem);
      ioattn_options options = {};
      options.struct_size = sizeof options;
      options.threads = threads;
      ASSERT_EQ(call.forward(&options), IOATTN_OK);
      ASSERT_EQ(call.backward(&options), IOATTN_OK);
      if (threads == 1) one = call.values();
      EXPECT_TRUE(same_bits(one, call.values())) << threads;
    }
  }
}

// Rows are read where they lie or copied, as they are strided; if the scale is a power of two those
// of Q are scaled as rows or in products.
TYPED_TEST(Sdpa, BitsDoNotDependOnTheLayout) {
  const Case wide[] = {{{1, 3, 3, 150, 140, 64, 64}},
                       {{1, 4, 2, 90, 70, 64, 128}, IOATTN_MASK_CAUSAL_TOP_LEFT},
                       {{1, 3, 1, 130, 75, 128, 64}},
                       {{1, 3, 1, 70, 75, 96, 32}, IOATTN_MASK_NONE, 0, 0, 0, 0, -0.25}};
  for (const Case& c : wide) {
    std::vector<TypeParam> first;
    for (const Layout layout : reference::all_layouts) {
      SdpaCall<TypeParam> call(c.sizes, layout);
      apply(c, &call.problem);
      ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
      ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
      if (first.empty()) first = call.values();
      EXPECT_TRUE(same_bits(first, call.values())) << c.sizes.d << " layout " << int(layout);
    }
  }
}

// Rows that begin with lines are read where they lie, but for those, 1 KiB apart and more, whose
// lines share sets of L1; others are copied.
TYPED_TEST(Sdpa, BitsDoNotDependOnWhereRowsBegin) {
  using T = TypeParam;
  for_each_isa([] {
    for (const std::size_t bytes : {768u, 1024u, 1088u, 2048u}) {
      SCOPED_TRACE(bytes);
      const std::size_t d = bytes / sizeof(T);
      std::vector<T> first;
      for (const std::size_t gap : {0u, 1u}) {
        SdpaCall<T> call({1, 1, 1, 90, 80, d, d}, Layout::bhsd);
        const BehindLine<T> q(call.q.dense().values, gap), k(call.k.dense().values, gap);
        const BehindLine<T> v(call.v.dense().values, gap), d_o(call.d_o.dense().values, gap);
        call.problem.q = q.data();
        call.problem.k = k.data();
        call.problem.v = v.data();
        ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
        ASSERT_EQ(
            ioattn_sdpa_backward(&call.problem, nullptr, d_o.data(), call.d_o.strides().data(),
                                 call.o.data(), call.o.strides().data(), call.lse.data(),
                                 call.lse.strides().data(), &call.gradients),
            IOATTN_OK)
            << ioattn_last_error();
        call.expect_forward();
        call.expect_backward();
        if (first.empty()) first = call.values();
        EXPECT_TRUE(same_bits(first, call.values()));
      }
    }
  });
}

// Every subset of the gradients is near what it is among all, as it may be made by other passes or
// in other blocks; O and LSE have the same bits.
TYPED_TEST(Sdpa, AnySubsetOfTheOutputs) {
  const double tolerance = 32 * double(std::numeric_limits<TypeParam>::epsilon());
  for (int subset = 0; subset < 8; ++subset) {
    SdpaCall<TypeParam> call({1, 4, 2, 33, 45, 10, 6}, Layout::padded);
    ASSERT_EQ(call.forward(), IOATTN_OK);
    if ((subset & 1) == 0) call.gradients.dq = nullptr;
    if ((subset & 2) == 0) call.gradients.dk = nullptr;
    if ((subset & 4) == 0) call.gradients.dv = nullptr;
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    EXPECT_EQ(call.dq.numbers() > 0, (subset & 1) != 0);
    EXPECT_EQ(call.dk.numbers() > 0, (subset & 2) != 0);
    EXPECT_EQ(call.dv.numbers() > 0, (subset & 4) != 0);
    SdpaCall<TypeParam> all({1, 4, 2, 33, 45, 10, 6}, Layout::padded);
    ASSERT_EQ(all.forward(), IOATTN_OK);
    ASSERT_EQ(all.backward(), IOATTN_OK);
    all.expect_backward();
    if ((subset & 1) == 0) all.dq.poison();
    if ((subset & 2) == 0) all.dk.poison();
    if ((subset & 4) == 0) all.dv.poison();
    const auto expect_close = [&](const auto& a, const auto& b) {
      const auto x = a.dense().values, y = b.dense().values;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(y[i])) continue;
        EXPECT_NEAR(double(x[i]), double(y[i]), tolerance);
      }
    };
    for (std::size_t i = 0; i < 3; ++i)
      expect_close(*call.gradient_tensors()[i], *all.gradient_tensors()[i]);
  }
  for (const bool wants_o : {true, false}) {
    SdpaCall<TypeParam> call({1, 4, 2, 33, 45, 10, 6}, Layout::padded);
    SdpaCall<TypeParam> all({1, 4, 2, 33, 45, 10, 6}, Layout::padded);
    ASSERT_EQ(all.forward(), IOATTN_OK);
    ASSERT_EQ(ioattn_sdpa_forward(&call.problem, nullptr, wants_o ? call.o.data() : nullptr,
                                  call.o.strides().data(), wants_o ? nullptr : call.lse.data(),
                                  call.lse.strides().data()),
              IOATTN_OK);
    EXPECT_EQ(call.o.numbers() > 0, wants_o);
    EXPECT_EQ(call.lse.numbers() > 0, !wants_o);
    EXPECT_TRUE(wants_o ? same_bits(call.o.dense().values, all.o.dense().values)
                        : same_bits(call.lse.dense().values, all.lse.dense().values));
  }
}

// Without O, dV alone.
TYPED_TEST(Sdpa, DvNeedsNoO) {
  SdpaCall<TypeParam> call({1, 2, 2, 12, 14, 5, 4});
  ASSERT_EQ(call.forward(), IOATTN_OK);
  const auto backward = [&] {
    return ioattn_sdpa_backward(&call.problem, nullptr, call.d_o.data(), nullptr, nullptr, nullptr,
                                call.lse.data(), nullptr, &call.gradients);
  };
  EXPECT_EQ(backward(), IOATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(call.gradients_untouched());
  call.gradients.dq = call.gradients.dk = nullptr;
  EXPECT_EQ(backward(), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(call.dv.numbers(), 2u * 14u * 4u);
}

TYPED_TEST(Sdpa, AccumulateAddsToWhatThereIs) {
  for (const ioattn_mask mask : {IOATTN_MASK_NONE, IOATTN_MASK_CAUSAL_BOTTOM_RIGHT}) {
    SdpaCall<TypeParam> plain({2, 4, 2, 40, 30, 10, 6}, Layout::bshd);
    SdpaCall<TypeParam> added({2, 4, 2, 40, 30, 10, 6}, Layout::bshd);
    plain.problem.mask = added.problem.mask = mask;
    ASSERT_EQ(plain.forward(), IOATTN_OK);
    ASSERT_EQ(plain.backward(), IOATTN_OK);
    ASSERT_EQ(added.forward(), IOATTN_OK);
    added.dq.set(added.inputs.Q);
    added.dk.set(added.inputs.K);
    added.dv.set(added.inputs.V);
    added.gradients.accumulate = 1;
    ASSERT_EQ(added.backward(), IOATTN_OK);
    const reference::Tensor<double>* before[] = {&added.inputs.Q, &added.inputs.K, &added.inputs.V};
    for (std::size_t g = 0; g < 3; ++g) {
      const auto sum = added.gradient_tensors()[g]->dense().values;
      const auto part = plain.gradient_tensors()[g]->dense().values;
      for (std::size_t i = 0; i < sum.size(); ++i)
        EXPECT_NEAR(double(sum[i]), double(part[i]) + before[g]->values[i], 2e-5);
    }
  }
}

// Keys in slices, the last one short: O and LSE of the parts merge into those of the whole, and the
// slices' gradients from the merged O and LSE add up to those of the whole.
TYPED_TEST(Sdpa, SlicesOfTheKeysMerge) {
  using T = TypeParam;
  for (const Case& c : {cases[1], cases[2], cases[3], cases[5], cases[6]}) {
    SdpaCall<T> whole(c.sizes, Layout::bshd);
    apply(c, &whole.problem);
    const std::int64_t m = whole.problem.m, slice = m / 3 + 1;
    using Tensors = reference::StridedTensor<T>;
    const std::size_t n = c.sizes.n, e = c.sizes.dv;
    std::vector<Tensors> o, lse;
    std::vector<ioattn_sdpa_problem> problems;
    for (std::int64_t first = 0; first < m; first += slice) {
      ioattn_sdpa_problem part = whole.problem;
      part.m = std::min(slice, m - first);
      part.k = whole.k.data() + first * part.k_stride[2];
      part.v = whole.v.data() + first * part.v_stride[2];
      part.k_offset = c.k_offset + first;
      // Bottom-right is aligned with the sizes of a call: said with an offset instead.
      if (c.mask == IOATTN_MASK_CAUSAL_BOTTOM_RIGHT) {
        part.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
        part.q_offset = m - part.n;
      }
      o.emplace_back(c.sizes.batch, c.sizes.heads, n, e, Layout::padded);
      lse.emplace_back(c.sizes.batch, c.sizes.heads, 1, n, Layout::padded);
      ASSERT_EQ(ioattn_sdpa_forward(&part, nullptr, o.back().data(), o.back().strides().data(),
                                    lse.back().data(), lse.back().strides().data()),
                IOATTN_OK)
          << ioattn_last_error();
      problems.push_back(part);
    }
    std::vector<ioattn_partial> parts(o.size());
    for (std::size_t i = 0; i < o.size(); ++i) {
      parts[i].o = o[i].data();
      parts[i].lse = lse[i].data();
      std::copy_n(o[i].strides().begin(), 3, parts[i].o_stride);
      std::copy_n(lse[i].strides().begin(), 2, parts[i].lse_stride);
    }
    ioattn_merge_shape shape = {sizeof shape,    whole.problem.batch, whole.problem.heads,
                                whole.problem.n, whole.problem.dv,    whole.problem.dtype};
    std::vector<T> one;
    for (const int threads : thread_counts) {
      ioattn_options options = {};
      options.struct_size = sizeof options;
      options.threads = threads;
      whole.poison();
      ASSERT_EQ(
          ioattn_merge(&shape, &options, parts.data(), std::int64_t(parts.size()), whole.o.data(),
                       whole.o.strides().data(), whole.lse.data(), whole.lse.strides().data()),
          IOATTN_OK)
          << ioattn_last_error();
      if (threads == 1) one = whole.values();
      EXPECT_TRUE(same_bits(one, whole.values())) << threads;
    }
    whole.expect_forward();

    ioattn_sdpa_gradients gradients = whole.gradients;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const std::int64_t first = std::int64_t(i) * slice;
      gradients.dk = whole.dk.data() + first * gradients.dk_stride[2];
      gradients.dv = whole.dv.data() + first * gradients.dv_stride[2];
      gradients.accumulate = i > 0;
      if (i > 0) {  // dQ adds up over slices, dK and dV of a slice are its own
        for (std::size_t j = 0; j < std::size_t(problems[i].m); ++j)
          for (std::size_t b = 0; b < c.sizes.batch; ++b)
            for (std::size_t h = 0; h < c.sizes.kv_heads; ++h) {
              for (std::size_t k = 0; k < c.sizes.d; ++k)
                whole.dk(b, h, std::size_t(first) + j, k) = 0;
              for (std::size_t k = 0; k < e; ++k) whole.dv(b, h, std::size_t(first) + j, k) = 0;
            }
      }
      ASSERT_EQ(
          ioattn_sdpa_backward(&problems[i], nullptr, whole.d_o.data(), whole.d_o.strides().data(),
                               whole.o.data(), whole.o.strides().data(), whole.lse.data(),
                               whole.lse.strides().data(), &gradients),
          IOATTN_OK);
    }
    whole.expect_backward();
  }
}

// Values of one sign, whose rounding adds up.
TYPED_TEST(Sdpa, MergesThousandsOfParts) {
  using T = TypeParam;
  constexpr std::size_t count = 20000;
  std::mt19937_64 engine(12);
  std::uniform_real_distribution<double> uniform(1, 2);
  std::vector<T> values(count), lses(count);
  std::vector<ioattn_partial> parts(count);
  long double sum = 0, weighted = 0;
  for (std::size_t k = 0; k < count; ++k) {
    values[k] = T(uniform(engine));
    lses[k] = T(uniform(engine));
    parts[k].o = &values[k];
    parts[k].lse = &lses[k];
    const long double weight = std::exp(static_cast<long double>(lses[k]));
    sum += weight;
    weighted += weight * values[k];
  }
  const ioattn_merge_shape shape = {
      sizeof shape, 1, 1, 1, 1, std::is_same_v<T, float> ? IOATTN_F32 : IOATTN_F64};
  T o = 0, lse = 0;
  ASSERT_EQ(
      ioattn_merge(&shape, nullptr, parts.data(), std::int64_t(count), &o, nullptr, &lse, nullptr),
      IOATTN_OK);
  constexpr T epsilon = std::numeric_limits<T>::epsilon();
  EXPECT_LE(std::abs(o - weighted / sum), 6 * epsilon);
  EXPECT_LE(std::abs(lse - std::log(sum)), 12 * epsilon);
}

// What a mask hides may be anything; what it shows goes into the rows that see it.
TYPED_TEST(Sdpa, NothingHiddenLeaks) {
  using T = TypeParam;
  constexpr std::size_t n = 40, m = 50, d = 10, e = 7;
  const T bad[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()};
  for (const T value : bad) {
    SdpaCall<T> clean({1, 2, 1, n, m, d, e}), call({1, 2, 1, n, m, d, e});
    for (SdpaCall<T>* one : {&clean, &call}) {
      one->problem.mask = IOATTN_MASK_CAUSAL_TOP_LEFT;
      one->problem.k_offset = 5;  // queries 0 to 4 see nothing
    }
    // Keys from 35 on are seen by no query; key 30 by the queries from 35 on.
    for (std::size_t j = 35; j < m; ++j) {
      for (std::size_t k = 0; k < d; ++k) call.k(0, 0, j, k) = value;
      for (std::size_t k = 0; k < e; ++k) call.v(0, 0, j, k) = value;
    }
    for (std::size_t k = 0; k < d; ++k) call.q(0, 0, 2, k) = value;  // a row that sees nothing
    for (SdpaCall<T>* one : {&clean, &call}) {
      ASSERT_EQ(one->forward(), IOATTN_OK);
      ASSERT_EQ(one->backward(), IOATTN_OK);
    }
    EXPECT_TRUE(same_bits(call.values(), clean.values()));
    clean.expect_forward();
    clean.expect_backward();
    EXPECT_EQ(call.lse(0, 0, 0, 2), -std::numeric_limits<T>::infinity());
    EXPECT_EQ(call.o(0, 0, 2, 0), 0);
    EXPECT_EQ(call.dq(0, 0, 2, 0), 0);
    EXPECT_EQ(call.dk(0, 0, 40, 0), 0);
    EXPECT_EQ(call.dv(0, 0, 40, 0), 0);

    // A NaN in key 30 reaches the rows from 35 on and no other.
    SdpaCall<T> seen({1, 2, 1, n, m, d, e});
    seen.problem = clean.problem;
    seen.problem.k = seen.k.data();
    seen.k(0, 0, 30, 3) = std::numeric_limits<T>::quiet_NaN();
    ASSERT_EQ(seen.forward(), IOATTN_OK);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < e; ++k)
        EXPECT_EQ(std::isnan(seen.o(0, 1, i, k)), i >= 35) << i << ", " << k;
    // A NaN in a query makes its row NaN, and no other.
    SdpaCall<T> query({1, 2, 1, n, m, d, e});
    query.q(0, 1, 7, 3) = std::numeric_limits<T>::quiet_NaN();
    ASSERT_EQ(query.forward(), IOATTN_OK);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(std::isnan(query.lse(0, 1, 0, i)), i == 7);
      EXPECT_FALSE(std::isnan(query.lse(0, 0, 0, i)));
      for (std::size_t k = 0; k < e; ++k) EXPECT_EQ(std::isnan(query.o(0, 1, i, k)), i == 7);
    }
  }
}

TYPED_TEST(Sdpa, SizesOfZero) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  for (const SdpaSizes& sizes : {SdpaSizes{0, 2, 1, 3, 4, 5, 6},
                                 {2, 0, 0, 3, 4, 5, 6},
                                 {2, 2, 1, 0, 4, 5, 6},
                                 {2, 2, 1, 3, 0, 5, 6},
                                 {2, 2, 1, 3, 4, 0, 6},
                                 {2, 2, 1, 3, 4, 5, 0}}) {
    SdpaCall<T> call(sizes);
    ASSERT_EQ(call.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(call.backward(), IOATTN_OK) << ioattn_last_error();
    call.expect_forward();
    call.expect_backward();
    if (sizes.m == 0) {
      EXPECT_EQ(call.lse(1, 1, 0, 2), -infinity);
      EXPECT_EQ(call.o(1, 1, 2, 5), 0);
      // Nothing is added to what is there.
      call.dq.set(call.inputs.Q);
      const auto before = call.dq.dense().values;
      call.gradients.accumulate = 1;
      ASSERT_EQ(call.backward(), IOATTN_OK);
      EXPECT_TRUE(same_bits(before, call.dq.dense().values));
    }
  }
}

// Without parts, and with parts that saw nothing.
TYPED_TEST(Sdpa, MergeOfNothing) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  const ioattn_dtype dtype = std::is_same_v<T, float> ? IOATTN_F32 : IOATTN_F64;
  const ioattn_merge_shape shape = {sizeof shape, 1, 2, 3, 4, dtype};
  std::vector<T> o(24, T(7)), lse(6, T(7)), part_o(24, std::numeric_limits<T>::quiet_NaN()),
      part_lse(6, -infinity);
  ASSERT_EQ(ioattn_merge(&shape, nullptr, nullptr, 0, o.data(), nullptr, lse.data(), nullptr),
            IOATTN_OK);
  EXPECT_EQ(o, std::vector<T>(24, T(0)));
  EXPECT_EQ(lse, std::vector<T>(6, -infinity));
  ioattn_partial parts[2] = {};
  parts[0].o = part_o.data();
  parts[0].lse = part_lse.data();
  const std::vector<T> other_o(24, T(3)), other_lse(6, T(-1000));
  parts[1].o = other_o.data();
  parts[1].lse = other_lse.data();
  ASSERT_EQ(ioattn_merge(&shape, nullptr, parts, 2, o.data(), nullptr, lse.data(), nullptr),
            IOATTN_OK);
  EXPECT_EQ(o, other_o);
  EXPECT_EQ(lse, other_lse);
}

// The C++ wrappers pass everything on.
TYPED_TEST(Sdpa, Cpp) {
  using T = TypeParam;
  SdpaCall<T> expected({2, 4, 2, 12, 20, 6, 5}, Layout::bshd),
      got({2, 4, 2, 12, 20, 6, 5}, Layout::bshd);
  expected.problem.mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  expected.problem.window_left = 5;
  expected.problem.window_right = 1;
  expected.problem.q_offset = 3;
  expected.problem.k_offset = 1;
  expected.problem.scale = 0.4;
  ASSERT_EQ(expected.forward(), IOATTN_OK);
  ASSERT_EQ(expected.backward(), IOATTN_OK);

  ioattn::Sdpa<T> sdpa;
  sdpa.q = ioattn::Tensor<const T>::bshd(got.q.data(), 2, 12, 4, 6);
  sdpa.k = ioattn::Tensor<const T>::bshd(got.k.data(), 2, 20, 2, 6);
  sdpa.v = ioattn::Tensor<const T>::bshd(got.v.data(), 2, 20, 2, 5);
  sdpa.mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT;
  sdpa.window_left = 5;
  sdpa.window_right = 1;
  sdpa.q_offset = 3;
  sdpa.k_offset = 1;
  sdpa.scale = 0.4;
  const auto o = ioattn::Tensor<T>::bshd(got.o.data(), 2, 12, 4, 5);
  const ioattn::Tensor<T> lse(got.lse.data(), 2, 4, 1, 12);
  ioattn::forward<T>(sdpa, o, lse);
  ioattn::SdpaGradients<T> gradients;
  gradients.dq = ioattn::Tensor<T>::bshd(got.dq.data(), 2, 12, 4, 6);
  gradients.dk = ioattn::Tensor<T>::bshd(got.dk.data(), 2, 20, 2, 6);
  gradients.dv = ioattn::Tensor<T>::bshd(got.dv.data(), 2, 20, 2, 5);
  const auto d_o = ioattn::Tensor<const T>::bshd(got.d_o.data(), 2, 12, 4, 5);
  ioattn::backward<T>(sdpa, d_o, o, lse, gradients);
  EXPECT_TRUE(same_bits(expected.values(), got.values()));

  got.poison();
  const auto forward = ioattn::SdpaPlan<T>::forward(sdpa);
  auto backward = ioattn::SdpaPlan<T>::backward(sdpa, gradients);
  std::vector<char> workspace(std::max(forward.workspace_size(), backward.workspace_size()));
  forward.execute_forward(sdpa, o, lse, workspace.data(), workspace.size());
  EXPECT_NE(backward.text(), forward.text());
  EXPECT_NE(backward.describe().find("\"plan\":\"" + backward.text()), std::string::npos);
  const ioattn::SdpaPlan<T> moved = std::move(backward);
  moved.execute_backward(sdpa, d_o, o, lse, gradients);
  EXPECT_TRUE(same_bits(expected.values(), got.values()));
  gradients.accumulate = true;
  EXPECT_THROW(moved.execute_backward(sdpa, d_o, o, lse, gradients), ioattn::Error);

  SdpaCall<T> merged({2, 4, 2, 12, 20, 6, 5}, Layout::bshd);
  ioattn::merge<T>({{o, lse}}, ioattn::Tensor<T>::bshd(merged.o.data(), 2, 12, 4, 5),
                   ioattn::Tensor<T>(merged.lse.data(), 2, 4, 1, 12));
  EXPECT_TRUE(same_bits(expected.o.dense().values, merged.o.dense().values));
  EXPECT_TRUE(same_bits(expected.lse.dense().values, merged.lse.dense().values));
  SdpaCall<T> of_o({2, 4, 2, 12, 20, 6, 5}, Layout::bshd);
  ioattn::merge<T>({{o, lse}}, ioattn::Tensor<T>::bshd(of_o.o.data(), 2, 12, 4, 5), {});
  EXPECT_TRUE(same_bits(expected.o.dense().values, of_o.o.dense().values));
  sdpa.v.rows = 19;
  EXPECT_THROW(ioattn::forward<T>(sdpa, o, lse), std::invalid_argument);
}

}  // namespace
}  // namespace ioattn_test
