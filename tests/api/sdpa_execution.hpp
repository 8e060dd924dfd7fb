#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "api/plan_call.hpp"
#include "api/refused.hpp"
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

// Several threads execute the plans at once, each with workspaces and a call of its own, which
// make_call(layout) makes: the values are those.
template <class T, class MakeCall>
void expect_reentrant(const Plan& forward, const Plan& backward, const std::vector<T>& values,
                      const MakeCall& make_call) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0}, waiting{4};
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto call = make_call(reference::all_layouts[i % 3]);
      Workspace first(forward, i), second(backward, i);
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      bool same = true;
      for (int repeat = 0; repeat < 5; ++repeat) {
        call.poison();
        same = same && execute_forward(forward, &call, first.data(), first.size()) == IOATTN_OK &&
               execute_backward(backward, &call, second.data(), second.size()) == IOATTN_OK &&
               same_bits(call.values(), values);
      }
      right += same && first.stayed_inside() && second.stayed_inside() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

// A problem changed so has no plan of either pass, from a text or not.
template <class Change>
void expect_no_plan(ioattn_sdpa_problem problem, const Change& change, ioattn_status wanted,
                    const char* word) {
  change(&problem);
  ioattn_plan* none = nullptr;
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    expect_refused(ioattn_sdpa_plan_create(pass, &problem, nullptr, nullptr, &none), wanted, word);
    expect_refused(ioattn_sdpa_plan_parse(pass, &problem, nullptr, nullptr, "text", &none), wanted,
                   word);
    EXPECT_EQ(none, nullptr);
  }
}

}  // namespace ioattn_test
