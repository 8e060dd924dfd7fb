#pragma once

#include <string>
#include <vector>

#include "api/batch_call.hpp"
#include "api/search/layer_search.hpp"
#include "api/wisdom_case.hpp"
#include "status_ok.hpp"

// A layer problem and wisdom about it; the process begins and ends each test without any.
namespace ioattn_test {

inline const BatchShape batch_shape = {{90, 110, 33, 18, Ties::keys_values}, 2, 0.5, {}};

using Set = std::optional<GradientSet>;
inline Set set_of_dx() {
  GradientSet set;
  set.dX = true;
  return set;
}
inline Set set_of_all() {
  GradientSet set;
  set.dX = set.dY = set.dA1 = set.dA2 = set.dA3 = true;
  return set;
}
inline const Set no_set, dx_alone = set_of_dx(), every_gradient = set_of_all();
inline const Set* const sets[] = {&no_set, &dx_alone, &every_gradient};

class LayerWisdom : public WithoutWisdom {
 protected:
  LayerWisdom() : call(batch_shape, 0) {
    problem.shape = {90, 110, 33, 18, Tie::kv, {}};
    problem.batch = 2;
    problem.scale = 0.5;
  }

  plan::LayerRequest request(const Set& set) const {
    plan::LayerRequest made;
    EXPECT_OK(api::LayerKind::request_of(problem, set, {}, &made));
    return made;
  }
  std::vector<plan::LayerCandidate> candidates(const Set& set) const {
    std::vector<plan::LayerCandidate> list;
    EXPECT_OK(plan::list_candidates(request(set), set, &list));
    for (const plan::LayerCandidate& near : plan::neighbours(request(set), set, list[0].plan))
      list.push_back(near);
    return list;
  }
  std::string text(const plan::LayerPlan& plan, const Set& set) const {
    return plan::to_text(plan, set, problem.shape.tie);
  }
  // Another plan than the estimate, which is as good as one that was measured.
  std::string another(const Set& set) const { return text(candidates(set).back().plan, set); }
  std::string document(const std::string& plan, const Set& set) const {
    wisdom::Wisdom made;
    made.keep(api::environment_of(request(set).tile.isa), api::class_of(problem, set),
              record_of(to_text(problem), plan));
    return to_text(made);
  }
  ioattn_status create(const Set& set, const ioattn_options* options, ioattn_plan** plan) {
    call.want(set == every_gradient);
    const ioattn_layer_shape shape = call.planned_shape();
    return ioattn_layer_plan_create(set ? IOATTN_BACKWARD : IOATTN_FORWARD, &shape, &call.gradients,
                                    options, plan);
  }
  Json describe(const Set& set, const ioattn_options* options = nullptr) {
    ioattn_plan* plan = nullptr;
    EXPECT_EQ(create(set, options, &plan), IOATTN_OK) << ioattn_last_error();
    return Json::parse(text_of(ioattn_plan_describe, Plan(plan)));
  }

  BatchCall<float> call;
  LayerProblem problem;
};

}  // namespace ioattn_test
