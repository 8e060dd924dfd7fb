// Plans of SDPA: the results are those of the one-call functions, the workspace is exactly as large
// as said, a plan's text is the plan, its description tells the closed formulas, and whatever is
// wrong leaves the outputs alone.

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/plan_call.hpp"
#include "api/sdpa.hpp"
#include "api/sdpa_call.hpp"
#include "schedules/random_sdpa.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

// A problem to plan for has no memory yet.
ioattn_sdpa_problem without_memory(const ioattn_sdpa_problem& problem) {
  ioattn_sdpa_problem planned = problem;
  planned.q = planned.k = planned.v = nullptr;
  for (int i = 0; i < 3; ++i) planned.q_stride[i] = planned.k_stride[i] = planned.v_stride[i] = -1;
  return planned;
}

Plan create(ioattn_pass pass, const ioattn_sdpa_problem& problem, const ioattn_options* options,
            const ioattn_sdpa_gradients* gradients = nullptr) {
  const ioattn_sdpa_problem planned = without_memory(problem);
  ioattn_plan* plan = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_create(pass, &planned, gradients, options, &plan), IOATTN_OK)
      << ioattn_last_error();
  return Plan(plan);
}

// The plan of another's text, which has to be the same.
Plan read_back(const Plan& plan, ioattn_pass pass, const ioattn_sdpa_problem& problem,
               const ioattn_options* options, const ioattn_sdpa_gradients* gradients = nullptr) {
  const ioattn_sdpa_problem planned = without_memory(problem);
  const std::string text = text_of(ioattn_plan_text, plan);
  ioattn_plan* read = nullptr;
  EXPECT_EQ(ioattn_sdpa_plan_parse(pass, &planned, gradients, options, text.c_str(), &read),
            IOATTN_OK)
      << ioattn_last_error();
  Plan parsed(read);
  EXPECT_EQ(text_of(ioattn_plan_text, parsed), text);
  EXPECT_EQ(text_of(ioattn_plan_describe, parsed), text_of(ioattn_plan_describe, plan));
  return parsed;
}

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

// A random problem and set of gradients, in a random layout.
struct Drawn {
  explicit Drawn(RandomProblem* random) {
    const auto size = [&](ioattn::index_t most) {
      return static_cast<std::size_t>(random->logarithmic(1, most));
    };
    const std::size_t kv_heads = size(2);
    sizes = {size(2), kv_heads * size(3), kv_heads, size(70), size(70), size(20), size(20)};
    layout = reference::all_layouts[random->uniform(0, 2)];
    mask = static_cast<ioattn_mask>(random->uniform(0, 4));
    left = random->uniform(-1, 20);
    right = random->uniform(-1, 20);
    q_offset = random->uniform(-10, 10);
    k_offset = random->uniform(-10, 10);
    scale = random->uniform(0, 1) == 0 ? 0 : -0.3;
    set = random_set(random);
    options = default_options();
    options.fast_memory_words = random->uniform(0, 2) == 0 ? 0 : random->logarithmic(700, 20000);
    options.threads = static_cast<std::int32_t>(random->uniform(1, 2));
  }
  template <class T>
  void apply(SdpaCall<T>* call) const {
    ioattn_sdpa_problem& p = call->problem;
    p.mask = mask;
    p.window_left = left;
    p.window_right = right;
    p.q_offset = q_offset;
    p.k_offset = k_offset;
    p.scale = scale;
    if (!set.dQ) call->gradients.dq = nullptr;
    if (!set.dK) call->gradients.dk = nullptr;
    if (!set.dV) call->gradients.dv = nullptr;
    call->gradients.accumulate = set.accumulate ? 5 : 0;
  }
  // What gradients are added to.
  template <class T>
  void prepare(SdpaCall<T>* call) const {
    if (!set.accumulate) return;
    call->dq.set(call->inputs.Q);
    call->dk.set(call->inputs.K);
    call->dv.set(call->inputs.V);
  }
  SdpaSizes sizes;
  Layout layout;
  ioattn_mask mask;
  std::int64_t left, right, q_offset, k_offset;
  double scale;
  ioattn::SdpaSet set;
  ioattn_options options;
};

template <class T>
class SdpaPlans : public testing::Test {};
TYPED_TEST_SUITE(SdpaPlans, BothTypes);

TYPED_TEST(SdpaPlans, GiveTheBitsOfTheOneCallFunctions) {
  using T = TypeParam;
  RandomProblem random(91);
  int one_pass = 0;
  for (std::size_t round = 0; round < 150 && !this->HasFailure(); ++round) {
    const Drawn drawn(&random);
    SdpaCall<T> expected(drawn.sizes, drawn.layout, round), call(drawn.sizes, drawn.layout, round);
    drawn.apply(&expected);
    drawn.apply(&call);
    drawn.prepare(&expected);
    ASSERT_EQ(expected.forward(&drawn.options), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(expected.backward(&drawn.options), IOATTN_OK) << ioattn_last_error();

    const Plan forward = read_back(create(IOATTN_FORWARD, call.problem, &drawn.options),
                                   IOATTN_FORWARD, call.problem, &drawn.options);
    const Plan backward =
        read_back(create(IOATTN_BACKWARD, call.problem, &drawn.options, &call.gradients),
                  IOATTN_BACKWARD, call.problem, &drawn.options, &call.gradients);
    const std::string text = text_of(ioattn_plan_text, backward);
    SCOPED_TRACE(text);
    one_pass += text.find("one_pass") != std::string::npos;
    for (const bool lent : {true, false}) {
      call.poison();
      Workspace first(forward, round % 130), second(backward, 1 + round % 7);
      EXPECT_EQ(execute_forward(forward, &call, first.data(), first.size() - 1),
                first.size() == 0 ? IOATTN_OK : IOATTN_INVALID_ARGUMENT);
      EXPECT_TRUE(first.size() == 0 || call.untouched());
      ASSERT_EQ(execute_forward(forward, &call, lent ? first.data() : nullptr, first.size()),
                IOATTN_OK)
          << ioattn_last_error();
      if (second.size() > 0) {
        EXPECT_EQ(execute_backward(backward, &call, second.data(), second.size() - 1),
                  IOATTN_INVALID_ARGUMENT);
        EXPECT_NE(std::string(ioattn_last_error()).find(std::to_string(second.size())),
                  std::string::npos)
            << ioattn_last_error();
      }
      EXPECT_TRUE(call.gradients_untouched());
      drawn.prepare(&call);
      ASSERT_EQ(execute_backward(backward, &call, lent ? second.data() : nullptr, second.size()),
                IOATTN_OK)
          << ioattn_last_error();
      EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
      EXPECT_TRUE(same_bits(call.values(), expected.values()));
    }
  }
  EXPECT_GT(one_pass, 10);
}

// What plans tell is what the formulas of theory/sdpa_cost.hpp say of the blocks that the planner
// chooses, and a pass takes as much workspace as it was said to.
TEST(SdpaPlanDescription, TellsTheClosedFormulas) {
  namespace api = ioattn::api;
  RandomProblem random(92);
  for (std::size_t round = 0; round < 150 && !testing::Test::HasFailure(); ++round) {
    const Drawn drawn(&random);
    SdpaCall<double> call(drawn.sizes);
    drawn.apply(&call);
    // The mask in lib's terms, from the oracle's.
    ioattn::SdpaProblem problem;
    reference::SdpaInputs<double> seen = call.inputs;
    set_mask(call.problem, &seen);
    const std::int64_t shift = call.problem.q_offset - call.problem.k_offset;
    const ioattn_sdpa_problem& p = call.problem;
    problem.shape = {p.batch, p.heads, p.kv_heads, p.n, p.m, p.d, p.dv, {}};
    const bool first = p.mask >= IOATTN_MASK_WINDOW_TOP_LEFT && p.window_left >= 0;
    const bool last =
        p.mask != IOATTN_MASK_NONE && (p.mask < IOATTN_MASK_WINDOW_TOP_LEFT || p.window_right >= 0);
    if (first) problem.shape.mask.first = seen.first_key + shift;
    if (last) problem.shape.mask.last = seen.last_key + shift;
    problem.dtype = ioattn::DType::f64;
    problem.scale = p.scale;
    api::RunOptions run;
    run.M = drawn.options.fast_memory_words;
    for (const bool is_forward : {true, false}) {
      ioattn::plan::SdpaPlan planned;
      ASSERT_TRUE((is_forward ? api::plan_sdpa(problem, run, &planned)
                              : api::plan_sdpa(problem, drawn.set, run, &planned))
                      .is_ok());
      const ioattn::theory::ScheduleCost cost =
          is_forward ? ioattn::theory::sdpa_forward_cost(problem.shape, planned.blocks.rows)
                     : ioattn::theory::sdpa_backward_cost(problem.shape, drawn.set, planned.blocks);
      const std::int64_t fma = is_forward
                                   ? ioattn::theory::sdpa_forward_fma(problem.shape)
                                   : ioattn::theory::sdpa_backward_fma(
                                         problem.shape, drawn.set, planned.blocks.keys.one_pass);
      const Plan plan = is_forward ? create(IOATTN_FORWARD, p, &drawn.options)
                                   : create(IOATTN_BACKWARD, p, &drawn.options, &call.gradients);
      const Json json = Json::parse(text_of(ioattn_plan_describe, plan));
      SCOPED_TRACE(json.dump());
      EXPECT_EQ(json["problem"], to_text(problem));
      EXPECT_EQ(json["pass"], is_forward ? "forward" : "backward");
      EXPECT_EQ(json["plan"], to_text(planned));
      EXPECT_EQ(json["level"], planned.level);
      EXPECT_EQ(json["isa"], name_of(planned.isa));
      EXPECT_EQ(json["tile_rows"], planned.tile_rows);
      EXPECT_EQ(json["tile_cols"], planned.tile_cols);
      EXPECT_EQ(json["fma"], fma);
      EXPECT_EQ(json["flops"], 2 * fma);
      if (run.M > 0) {
        EXPECT_EQ(json["M"], run.M);
      }
      EXPECT_LE(json["footprint"], json["M"]);
      const auto expect_cost = [](const Json& told, const ioattn::theory::IoCost& of) {
        EXPECT_EQ(told["reads"], of.reads);
        EXPECT_EQ(told["writes"], of.writes);
        EXPECT_EQ(told["created"], of.created);
        EXPECT_EQ(told["footprint"], of.footprint);
      };
      expect_cost(json, cost.total());
      EXPECT_EQ(json["words"], cost.total().words());
      ASSERT_EQ(json["phases"].size(), static_cast<std::size_t>(cost.phase_count));
      for (std::size_t i = 0; i < json["phases"].size(); ++i) {
        const Json& phase = json["phases"][i];
        EXPECT_EQ(phase["name"], cost.phases[i].name);
        expect_cost(phase, cost.phases[i].cost);
        const ioattn::Blocks &rows = planned.blocks.rows, &keys = planned.blocks.keys;
        const Json blocks =
            phase["name"] == "delta" ? Json({{"rows", rows.o}, {"cols", rows.w}})
            : phase["name"] == "row_stream"
                ? Json({{"r", rows.r}, {"c", rows.c}, {"rho", rows.rho}})
                : Json({{"c", keys.c}, {"rho", keys.rho}, {"one_pass", keys.one_pass}});
        EXPECT_EQ(phase["blocks"], blocks);
      }
      const bool delta = !is_forward && drawn.set.delta();
      ASSERT_EQ(json["stored"].size(), delta ? 1u : 0u);
      if (delta) {
        EXPECT_EQ(json["stored"][0], Json({{"name", "delta"},
                                           {"shape", {p.batch, p.heads, p.n}},
                                           {"words", p.batch * p.heads * p.n}}));
      }
      if (!is_forward) {
        Json names = Json::array();
        if (drawn.set.dQ) names.push_back("dQ");
        if (drawn.set.dK) names.push_back("dK");
        if (drawn.set.dV) names.push_back("dV");
        EXPECT_EQ(json["gradients"], names);
        EXPECT_EQ(json["accumulate"], drawn.set.accumulate);
      }
      std::size_t bytes = 0;
      EXPECT_EQ(ioattn_plan_workspace_size(plan.get(), &bytes), IOATTN_OK);
      EXPECT_EQ(json["workspace_bytes"], bytes);
    }
  }
}

// Memory that is aligned takes no slack: a pass takes all of what it was said to take, and with one
// slot less it refuses.
TEST(SdpaPlanWorkspace, IsWhatAPassTakes) {
  namespace api = ioattn::api;
  RandomProblem random(93);
  for (std::size_t round = 0; round < 60; ++round) {
    ioattn::SdpaProblem problem;
    problem.shape = random_shape(&random, 60, 20);
    problem.shape.mask = {};
    const ioattn::SdpaShape& s = problem.shape;
    const auto size = [](ioattn::index_t x) { return static_cast<std::size_t>(x); };
    SdpaCall<float> call({size(s.batch), size(s.heads), size(s.kv_heads), size(s.n), size(s.m),
                          size(s.d), size(s.dv)});
    ASSERT_EQ(call.forward(), IOATTN_OK);
    const ioattn::SdpaSet set = {true, round % 2 == 0, round % 3 == 0, false};
    ioattn::plan::SdpaPlan plan;
    ASSERT_TRUE(api::plan_sdpa(problem, set, {}, &plan).is_ok());
    ioattn::index_t bytes = 0;
    ASSERT_TRUE(api::workspace_of(problem, plan, set, 2, &bytes).is_ok());
    ASSERT_GE(bytes, s.all_heads() * s.n * ioattn::index_t(sizeof(float)));
    const auto view = [&](auto& tensor, auto* data, ioattn::index_t heads, ioattn::index_t rows,
                          ioattn::index_t cols) {
      const auto& strides = tensor.strides();
      return ioattn::TensorView<std::remove_pointer_t<decltype(data)>>{
          data, s.batch, heads, rows, cols, strides[0], strides[1], strides[2]};
    };
    const auto in = [&](auto& tensor, ioattn::index_t heads, ioattn::index_t rows,
                        ioattn::index_t cols) {
      return view(tensor, static_cast<const float*>(tensor.data()), heads, rows, cols);
    };
    ioattn::SdpaGradients<float> out;
    out.dq = view(call.dq, call.dq.data(), s.heads, s.n, s.d);
    if (set.dK) out.dk = view(call.dk, call.dk.data(), s.kv_heads, s.m, s.d);
    if (set.dV) out.dv = view(call.dv, call.dv.data(), s.kv_heads, s.m, s.dv);
    const auto run = [&](ioattn::index_t lent) {
      const ioattn::AlignedBuffer memory(size(lent));
      ioattn::schedules::CallerMemory caller(memory.data(), lent);
      const ioattn::StatusCode code =
          api::sdpa_backward<float>(
              problem,
              {in(call.q, s.heads, s.n, s.d), in(call.k, s.kv_heads, s.m, s.d),
               in(call.v, s.kv_heads, s.m, s.dv)},
              {in(call.d_o, s.heads, s.n, s.dv), in(call.o, s.heads, s.n, s.dv),
               in(call.lse, s.heads, 1, s.n)},
              plan, 2, nullptr, out, &caller)
              .code();
      EXPECT_EQ(caller.needed(), bytes);
      return code;
    };
    EXPECT_EQ(run(bytes - 1), ioattn::StatusCode::out_of_memory);
    EXPECT_TRUE(call.gradients_untouched());
    EXPECT_EQ(run(bytes), ioattn::StatusCode::ok);
  }
}

}  // namespace
}  // namespace ioattn_test
