// What a lent workspace holds before a pass has no say in its results: memory full of NaN, under
// masks, with sizes that leave halves of pairs, of tiles and of strips unused.

#include "api/half_arithmetic.hpp"
#include "api/plan_call.hpp"

namespace ioattn_test {
namespace {

template <class Type>
class DirtyWorkspace : public HalfTest<Type> {};
using Types = testing::Types<Arithmetic<float, false>, Arithmetic<ioattn_f16, false>,
                             Arithmetic<ioattn_bf16, false>, Arithmetic<ioattn_bf16, true>,
                             Arithmetic<ioattn_bf16, true, true>>;
TYPED_TEST_SUITE(DirtyWorkspace, Types);

struct Masked {
  ioattn_mask mask;
  std::int64_t left, right;
};
const Masked masks[] = {{IOATTN_MASK_NONE, 0, 0},
                        {IOATTN_MASK_CAUSAL_TOP_LEFT, 0, 0},
                        {IOATTN_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0},
                        {IOATTN_MASK_WINDOW_TOP_LEFT, 20, 10},
                        {IOATTN_MASK_WINDOW_BOTTOM_RIGHT, 56, 31}};
const HalfSizes sizes[] = {{1, 1, 1, 129, 171, 64, 64},
                           {1, 1, 1, 161, 300, 128, 128},
                           {1, 1, 1, 257, 100, 64, 64},
                           {1, 2, 1, 258, 171, 64, 64},
                           {1, 1, 1, 65, 33, 24, 40}};

enum Gradients : int { all, keys_and_values, queries };

template <class S>
void run(unsigned char filling, Gradients wanted, HalfCall<S>* call) {
  if (wanted == keys_and_values) call->gradients.dq = nullptr;
  if (wanted == queries) call->gradients.dk = call->gradients.dv = nullptr;
  const ioattn_options options = with_threads(1);
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    const bool forward = pass == IOATTN_FORWARD;
    const Plan plan = create(pass, call->problem, &options, forward ? nullptr : &call->gradients);
    std::size_t bytes = 0;
    ASSERT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
    std::vector<unsigned char> workspace(bytes, filling);
    const ioattn_status status =
        forward ? ioattn_sdpa_execute_forward(plan.get(), &call->problem, call->o.data(), nullptr,
                                              call->lse.data(), nullptr, workspace.data(), bytes)
                : ioattn_sdpa_execute_backward(plan.get(), &call->problem, call->d_o.data(),
                                               nullptr, call->o.data(), nullptr, call->lse.data(),
                                               nullptr, &call->gradients, workspace.data(), bytes);
    ASSERT_EQ(status, IOATTN_OK) << ioattn_last_error();
  }
}

TYPED_TEST(DirtyWorkspace, HasNoSayInResults) {
  using S = typename TypeParam::S;
  for (const HalfSizes& s : sizes)
    for (const Masked& masked : masks)
      for (const Gradients wanted : {all, keys_and_values, queries}) {
        SCOPED_TRACE(testing::Message() << "n " << s.n << " m " << s.m << " mask " << masked.mask
                                        << " gradients " << wanted);
        HalfCall<S> clean(s);
        clean.problem.mask = masked.mask;
        clean.problem.window_left = masked.left;
        clean.problem.window_right = masked.right;
        HalfCall<S> dirty(clean);
        run(0, wanted, &clean);
        run(0xff, wanted, &dirty);
        EXPECT_TRUE(dirty.same_results(clean));
      }
}

}  // namespace
}  // namespace ioattn_test
