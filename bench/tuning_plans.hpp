#pragma once

#include <vector>

#include "api/array_types.hpp"
#include "api/known/other_kernels.hpp"
#include "api/planning/session.hpp"
#include "plan/sdpa/sdpa_candidates.hpp"

// What tuning_bench runs: shapes, and the plans of a wide search.
namespace ioattn::bench {

struct Shape {
  index_t d, n, heads;
};

// Some of one head, some of 4, 16 and 64, at most half a second by call at 40e9 multiply-adds a
// second.
inline std::vector<Shape> all_shapes() {
  constexpr index_t most = index_t(22e9);
  std::vector<Shape> list = {{80, 384, 1}};
  for (const index_t d : {16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048})
    for (index_t n = 128; n <= 8192; n *= 2)
      if (5 * n * n * d <= most) list.push_back({d, n, 1});
  for (std::size_t i = 0; i < list.size(); ++i) {
    Shape& shape = list[i];
    for (std::size_t power = i % 4; power > 0; --power)
      if (5 * shape.n * shape.n * shape.d * shape.heads * 4 <= most) shape.heads *= 4;
  }
  // In an order whose beginning is a fair sample.
  std::vector<Shape> order;
  for (std::size_t i = 0; i < list.size(); ++i) order.push_back(list[i * 37 % list.size()]);
  return order;
}

inline SdpaProblem problem_of(const Shape& shape, int threads) {
  const index_t heads = shape.heads * threads;
  SdpaProblem problem;
  problem.shape = {1, heads, heads, shape.n, shape.n, shape.d, shape.d, {}};
  return problem;
}

// Every plan that a search starts from, of each instruction set in turn, with all of their
// neighbours; the given ones first.
inline std::vector<plan::SdpaPlan> wide_list(const plan::SdpaRequest& request,
                                             const std::optional<SdpaSet>& set,
                                             const api::RunOptions& options,
                                             std::vector<plan::SdpaPlan> plans) {
  std::vector<plan::SdpaRequest> requests = {request};
  for (const kernels::Kernels* other : api::other_kernels(request.dtype)) {
    requests.push_back(request);
    requests.back().tile = other->tile(request.dtype);
    requests.back().price = api::price_of(options, requests.back().tile.isa, request.dtype);
  }
  const auto add = [&](const plan::SdpaPlan& plan) {
    for (const plan::SdpaPlan& known : plans)
      if (known.blocks == plan.blocks && known.level == plan.level &&
          known.tile.isa == plan.tile.isa)
        return;
    plans.push_back(plan);
  };
  std::vector<std::vector<plan::SdpaCandidate>> candidates(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!plan::list_candidates(requests[i], set, &candidates[i]).is_ok()) continue;
    for (const plan::SdpaCandidate& one : candidates[i]) add(one.plan);
  }
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (const plan::SdpaCandidate& one : candidates[i])
      for (const plan::SdpaCandidate& near : plan::neighbours(requests[i], set, one.plan))
        add(near.plan);
  return plans;
}

}  // namespace ioattn::bench
