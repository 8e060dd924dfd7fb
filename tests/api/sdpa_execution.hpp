#pragma once

#include <string>

#include "api/plan_call.hpp"
#include "api/sdpa_call.hpp"

// Executions of plans of SDPA. Nothing of lib is included.
namespace ioattn_test {

template <class T>
ioattn_status execute_forward(const Plan& plan, SdpaCall<T>* call, void* workspace,
                              std::size_t size) {
  return ioattn_sdpa_execute_forward(plan.get(), &call->problem, call->o.data(),
                                     call->o.strides().data(), call->lse.data(),
                                     call->lse.strides().data(), workspace, size);
}
template <class T>
ioattn_status execute_backward(const Plan& plan, SdpaCall<T>* call, void* workspace,
                               std::size_t size) {
  return ioattn_sdpa_execute_backward(
      plan.get(), &call->problem, call->d_o.data(), call->d_o.strides().data(), call->o.data(),
      call->o.strides().data(), call->lse.data(), call->lse.strides().data(), &call->gradients,
      workspace, size);
}

inline void expect_refused(ioattn_status got, ioattn_status wanted, const std::string& word) {
  EXPECT_EQ(got, wanted) << ioattn_last_error();
  EXPECT_NE(std::string(ioattn_last_error()).find(word), std::string::npos)
      << ioattn_last_error() << " for " << word;
}

}  // namespace ioattn_test
