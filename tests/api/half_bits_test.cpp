// SDPA in 16 bits, as the CPU's own kernels make it: the same bits for any number of threads, which
// are granted as asked, and of a query whatever the others are.

#include <cmath>
#include <cstring>
#include <random>

#include "api/run/sdpa.hpp"
#include "base/half.hpp"
#include "normal_numbers.hpp"
#include "schedules/half_case.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

template <class S>
struct Call {
  SdpaProblem problem;
  std::vector<S> q, k, v, d_o, o, dq, dk, dv;
  std::vector<float> lse;

  // Of queries that are `scale` times as large.
  Call(const char* text, float scale) {
    std::string error;
    EXPECT_TRUE(parse_problem(text, &problem, &error)) << error;
    problem.dtype = dtype_of<S>::value;
    std::mt19937 random(5);
    NormalNumbers<float> normal;
    const auto fill = [&](index_t count, float by, std::vector<S>* to) {
      for (index_t i = 0; i < count; ++i) to->push_back(from_float<S>(by * normal(random)));
    };
    const SdpaShape& s = problem.shape;
    fill(s.all_heads() * s.n * s.d, scale, &q);
    fill(s.all_kv_heads() * s.m * s.d, 1, &k);
    fill(s.all_kv_heads() * s.m * s.dv, 1, &v);
    fill(s.all_heads() * s.n * s.dv, 1, &d_o);
  }

  template <class T>
  TensorView<T> view(T* data, index_t heads, index_t rows, index_t cols) const {
    return {data, problem.shape.batch, heads, rows, cols, heads * rows * cols, rows * cols, cols};
  }
  template <class T>
  TensorView<T> of_queries(T* data, index_t cols) const {
    return view(data, problem.shape.heads, problem.shape.n, cols);
  }
  template <class T>
  TensorView<T> of_keys(T* data, index_t cols) const {
    return view(data, problem.shape.kv_heads, problem.shape.m, cols);
  }
  SdpaInputs<S> inputs() const {
    const SdpaShape& s = problem.shape;
    return {of_queries(q.data(), s.d), of_keys(k.data(), s.d), of_keys(v.data(), s.dv)};
  }

  void forward(int threads) {
    const SdpaShape& s = problem.shape;
    o.assign(d_o.size(), {});
    lse.assign(std::size_t(s.all_heads() * s.n), 0);
    plan::SdpaPlan plan;
    ASSERT_OK(api::plan_sdpa(problem, std::nullopt, {}, &plan));
    const TensorView<float> of_lse = {lse.data(), s.batch,       s.heads, 1,
                                      s.n,        s.heads * s.n, s.n,     s.n};
    const Status status = api::sdpa_forward<S>(problem, inputs(), plan, {threads},
                                               of_queries(o.data(), s.dv), of_lse);
    ASSERT_OK(status);
  }
  // O and LSE are there.
  void backward(int threads) {
    const SdpaShape& s = problem.shape;
    dq.assign(q.size(), {});
    dk.assign(k.size(), {});
    dv.assign(v.size(), {});
    SdpaGradients<S> gradients;
    gradients.dq = of_queries(dq.data(), s.d);
    gradients.dk = of_keys(dk.data(), s.d);
    gradients.dv = of_keys(dv.data(), s.dv);
    plan::SdpaPlan plan;
    ASSERT_OK(api::plan_sdpa(problem, gradients.set(), {}, &plan));
    const api::SdpaForwardResults<S> made = {
        of_queries<const S>(d_o.data(), s.dv),
        of_queries<const S>(o.data(), s.dv),
        {lse.data(), s.batch, s.heads, 1, s.n, s.heads * s.n, s.n, s.n}};
    const Status status =
        api::sdpa_backward<S, S>(problem, inputs(), made, plan, {threads}, gradients);
    ASSERT_OK(status);
  }
};

template <class S>
class HalfBits : public testing::Test {};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfBits, Types);

// Depths whose scale is no power of 2: a product that is scaled earlier or later has other bits.
// Blocks of keys that end with one share of 64 of them, or with a part of one; masks that leave
// queries few keys, in one share and across two.
TYPED_TEST(HalfBits, DoNotDependOnThreads) {
  for (const char* mask : {"", ",causal", ",causal-bottom-right", ",keys-40:9", ",keys-70:-20"})
    for (const char* sizes :
         {"sdpa:n128,m96,d96", "sdpa:n128,m128,d96", "sdpa:n300,m168,d128", "sdpa:n70,m224,d80",
          "sdpa:h2,kv1,n8,m256,d128", "sdpa:h8,kv2,n5,m300,d96", "sdpa:n40,m400,d96"}) {
      const std::string text = std::string(sizes) + mask;
      SCOPED_TRACE(text);
      Call<TypeParam> one(text.c_str(), 3);
      one.forward(1);
      one.backward(1);
      for (const int threads : thread_counts) {
        SCOPED_TRACE(threads);
        Call<TypeParam> other(text.c_str(), 3);
        other.forward(threads);
        EXPECT_TRUE(same_bytes(other.o, one.o));
        EXPECT_TRUE(same_bytes(other.lse, one.lse));
        other.backward(threads);
        EXPECT_TRUE(same_bytes(other.dq, one.dq));
        EXPECT_TRUE(same_bytes(other.dk, one.dk));
        EXPECT_TRUE(same_bytes(other.dv, one.dv));
      }
    }
}

// A query whose largest score comes late, or that has none, leaves those beside it alone.
TYPED_TEST(HalfBits, OfAQueryDoNotDependOnOthers) {
  for (const char* text :
       {"sdpa:n8,m256,d96", "sdpa:n40,m300,d64", "sdpa:n40,m300,d600", "sdpa:n1,h8,kv1,m256,d96"}) {
    SCOPED_TRACE(text);
    Call<TypeParam> plain(text, 1);
    plain.forward(1);
    const index_t d = plain.problem.shape.d, e = plain.problem.shape.dv;
    for (const float of_first : {std::nanf(""), INFINITY, 40.f, 3e4f}) {
      SCOPED_TRACE(of_first);
      Call<TypeParam> other(text, 1);
      for (index_t i = 0; i < d; ++i) {
        const float x =
            std::isfinite(of_first) ? of_first * to_float(other.q[std::size_t(i)]) : of_first;
        other.q[std::size_t(i)] = from_float<TypeParam>(x);
      }
      other.forward(1);
      const std::size_t beside = std::size_t(e);
      EXPECT_EQ(std::memcmp(other.o.data() + beside, plain.o.data() + beside,
                            (plain.o.size() - beside) * sizeof(TypeParam)),
                0);
      EXPECT_EQ(std::memcmp(other.lse.data() + 1, plain.lse.data() + 1,
                            (plain.lse.size() - 1) * sizeof(float)),
                0);
    }
  }
}

}  // namespace
}  // namespace ioattn_test
