// Plans of SDPA: the results are those of the one-call functions, the workspace is exactly as large
// as said, a plan's text is the plan, its description tells the closed formulas, and whatever is
// wrong leaves the outputs alone.

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "api/plan_call.hpp"
#include "api/raw_values.h"
#include "api/run/sdpa.hpp"
#include "api/sdpa_execution.hpp"
#include "schedules/memory/workspace.hpp"
#include "schedules/random_sdpa.hpp"
#include "schedules/sharing/sdpa_heads.hpp"
#include "schedules/thread_counts.hpp"
#include "status_ok.hpp"
#include "theory/sdpa_bounds.hpp"
#include "theory/sdpa_cost.hpp"

namespace ioattn_test {
namespace {

using Json = nlohmann::json;

// What is told of a plan is told of its text's, too.
Plan read_and_told(const Plan& plan, ioattn_pass pass, const ioattn_sdpa_problem& problem,
                   const ioattn_options* options,
                   const ioattn_sdpa_gradients* gradients = nullptr) {
  Plan parsed = read_back(plan, pass, problem, options, gradients);
  Json told = Json::parse(text_of(ioattn_plan_describe, plan));
  EXPECT_EQ(told["origin"], "estimate");
  EXPECT_EQ(told["objective"], "time");
  told["origin"] = "text";
  told["objective"] = nullptr;  // a text does not say
  EXPECT_EQ(Json::parse(text_of(ioattn_plan_describe, parsed)), told);
  return parsed;
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

    const Plan forward = read_and_told(create(IOATTN_FORWARD, call.problem, &drawn.options),
                                       IOATTN_FORWARD, call.problem, &drawn.options);
    const Plan backward =
        read_and_told(create(IOATTN_BACKWARD, call.problem, &drawn.options, &call.gradients),
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
    const ioattn::SdpaShape of_rows = problem.shape.with_grouped_rows();
    for (const bool is_forward : {true, false}) {
      ioattn::plan::SdpaPlan planned;
      const auto set = is_forward ? std::nullopt : std::optional(drawn.set);
      ASSERT_OK(api::plan_sdpa(problem, set, run, &planned));
      const ioattn::theory::ScheduleCost cost =
          is_forward ? ioattn::theory::sdpa_forward_cost(of_rows, planned.blocks.rows)
                     : ioattn::theory::sdpa_backward_cost(problem.shape, drawn.set, planned.blocks);
      const std::int64_t fma =
          is_forward ? ioattn::theory::sdpa_forward_fma(of_rows)
                     : ioattn::theory::sdpa_backward_fma(problem.shape, drawn.set, planned.blocks);
      const Plan plan = is_forward ? create(IOATTN_FORWARD, p, &drawn.options)
                                   : create(IOATTN_BACKWARD, p, &drawn.options, &call.gradients);
      const Json json = Json::parse(text_of(ioattn_plan_describe, plan));
      SCOPED_TRACE(json.dump());
      EXPECT_EQ(json["problem"], to_text(problem));
      EXPECT_EQ(json["pass"], is_forward ? "forward" : "backward");
      EXPECT_EQ(json["plan"], to_text(planned));
      EXPECT_EQ(json["level"], planned.level);
      EXPECT_EQ(json["isa"], name_of(planned.tile.isa));
      EXPECT_EQ(json["tile_rows"], planned.tile.rows);
      EXPECT_EQ(json["tile_cols"], planned.tile.cols);
      EXPECT_EQ(json["fma"], fma);
      EXPECT_EQ(json["flops"], 2 * fma);
      if (run.M > 0) {
        EXPECT_EQ(json["M"], run.M);
      }
      EXPECT_LE(json["footprint"], json["M"]);
      const auto expect_cost = [](const Json& told, const ioattn::IoCost& of) {
        EXPECT_EQ(told["reads"], of.reads);
        EXPECT_EQ(told["writes"], of.writes);
        EXPECT_EQ(told["created"], of.created);
        EXPECT_EQ(told["footprint"], of.footprint);
      };
      expect_cost(json, cost.total());
      EXPECT_EQ(json["words"], cost.total().words());
      const bool in_f = is_forward || !(drawn.set.query_pass(planned.blocks) && drawn.set.keys());
      EXPECT_EQ(json["class"], in_f ? "F" : "P");
      const std::int64_t M = json["M"];
      const ioattn::theory::BoundSet bounds =
          is_forward ? ioattn::theory::sdpa_forward_bounds(of_rows, M)
                     : ioattn::theory::sdpa_backward_bounds(problem.shape, drawn.set, M);
      const ioattn::theory::Bound bound =
          bounds.best(in_f ? ioattn::theory::AlgorithmClass::F : ioattn::theory::AlgorithmClass::P);
      EXPECT_EQ(json["lower_bound"], bound.words);
      EXPECT_EQ(json["bound"], bound.name);
      EXPECT_LE(bound.words, static_cast<double>(cost.total().words()));
      ASSERT_EQ(json["phases"].size(), static_cast<std::size_t>(cost.phase_count));
      for (std::size_t i = 0; i < json["phases"].size(); ++i) {
        const Json& phase = json["phases"][i];
        EXPECT_EQ(phase["name"], cost.phases[i].name);
        expect_cost(phase, cost.phases[i].cost);
        const ioattn::Blocks &rows = planned.blocks.rows, &keys = planned.blocks.keys;
        Json blocks = phase["name"] == "delta" ? Json({{"rows", rows.o}, {"cols", rows.w}})
                      : phase["name"] == "row_stream"
                          ? Json({{"r", rows.r}, {"c", rows.c}, {"rho", rows.rho}})
                      : is_forward ? Json({{"c", rows.c}, {"rho", rows.rho}, {"w", rows.w}})
                      : phase["name"] == "tile_fused"
                          ? Json({{"c", keys.c},
                                  {"rho", keys.rho},
                                  {"w", keys.w},
                                  {"one_pass", keys.one_pass},
                                  {"packed", keys.packed},
                                  {"parked", keys.parked}})
                          : Json({{"c", keys.c}, {"rho", keys.rho}, {"one_pass", keys.one_pass}});
        if (phase["name"] == "tile_fused" && keys.share > 0) blocks["share"] = keys.share;
        EXPECT_EQ(phase["blocks"], blocks);
      }
      const bool delta = !is_forward && drawn.set.delta();
      ASSERT_EQ(json["stored"].size(), delta ? 1u : 0u);
      if (delta) {
        const std::int64_t heads = ioattn::schedules::heads_in_work(
            problem.shape, drawn.set.in_one_pass(planned.blocks), json["threads"]);
        EXPECT_EQ(json["stored"][0],
                  Json({{"name", "delta"}, {"shape", {heads, p.n}}, {"words", heads * p.n}}));
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
    ASSERT_OK(api::plan_sdpa(problem, set, {}, &plan));
    ioattn::index_t bytes = 0;
    ASSERT_OK(api::workspace_of(problem, plan, set, 2, &bytes));
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
              plan, {2, nullptr, &caller}, out)
              .code();
      EXPECT_EQ(caller.needed(), bytes);
      return code;
    };
    EXPECT_EQ(run(bytes - 1), ioattn::StatusCode::out_of_memory);
    EXPECT_TRUE(call.gradients_untouched());
    EXPECT_EQ(run(bytes), ioattn::StatusCode::ok);
  }
}

const SdpaSizes small = {2, 4, 2, 29, 34, 10, 7};

TEST(SdpaPlanStatus, WhatCannotBePlanned) {
  SdpaCall<float> call(small);
  ioattn_plan* none = nullptr;
  const auto refused = [&](const auto& change, ioattn_status wanted, const char* word) {
    expect_no_plan(call.problem, change, wanted, word);
  };
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  refused([](auto* p) { p->struct_size = 3; }, invalid, "struct_size");
  refused([](auto* p) { p->n = -1; }, invalid, "negative");
  refused([](auto* p) { p->kv_heads = 3; }, invalid, "multiple");
  refused([](auto* p) { p->scale = HUGE_VAL; }, invalid, "scale");
  refused([](auto* p) { raw_set_sdpa_mask(p, 7); }, invalid, "mask");
  refused([](auto* p) { p->q_offset = INT64_MAX; }, invalid, "q_offset");
  refused([](auto* p) { p->n = INT64_MAX; }, IOATTN_SIZE_OVERFLOW, "64 bits");

  const auto create_with = [&](ioattn_pass pass, const ioattn_sdpa_gradients* gradients,
                               const ioattn_options* options) {
    return ioattn_sdpa_plan_create(pass, &call.problem, gradients, options, &none);
  };
  expect_refused(ioattn_sdpa_plan_create(IOATTN_FORWARD, nullptr, nullptr, nullptr, &none), invalid,
                 "problem is null");
  expect_refused(ioattn_sdpa_plan_create(IOATTN_FORWARD, &call.problem, nullptr, nullptr, nullptr),
                 invalid, "plan is null");
  expect_refused(
      ioattn_sdpa_plan_parse(IOATTN_FORWARD, &call.problem, nullptr, nullptr, nullptr, &none),
      invalid, "text is null");
  expect_refused(raw_sdpa_plan_create(3, &call.problem, &none), invalid, "pass is unknown");
  ioattn_sdpa_gradients gradients = {};
  expect_refused(create_with(IOATTN_BACKWARD, &gradients, nullptr), invalid, "struct_size");
  gradients.struct_size = sizeof gradients;
  expect_refused(create_with(IOATTN_BACKWARD, &gradients, nullptr), invalid, "none is wanted");
  ioattn_options options = default_options();
  options.fast_memory_words = 4;
  expect_refused(create_with(IOATTN_FORWARD, nullptr, &options), IOATTN_FAST_MEMORY_TOO_SMALL,
                 "the least is");
  expect_refused(create_with(IOATTN_BACKWARD, nullptr, &options), IOATTN_FAST_MEMORY_TOO_SMALL,
                 "the least is");
  options = with_schedule("stationary");
  expect_refused(create_with(IOATTN_FORWARD, nullptr, &options), IOATTN_UNSUPPORTED, "row_stream");
  options = default_options();
  options.memory_limit = 40;
  expect_refused(create_with(IOATTN_BACKWARD, nullptr, &options), IOATTN_MEMORY_LIMIT, "scratch");
  options.struct_size = 1;
  expect_refused(create_with(IOATTN_FORWARD, nullptr, &options), invalid, "struct_size");
  EXPECT_EQ(none, nullptr);
}

TEST(SdpaPlanStatus, TextsThatCannotRun) {
  SdpaCall<float> call(small);
  ioattn_options options = default_options();
  options.fast_memory_words = 2000;
  const std::string forward =
      text_of(ioattn_plan_text, create(IOATTN_FORWARD, call.problem, &options));
  const std::string tile = forward.substr(forward.find(" > reg:"));
  const std::string delta = " ; delta=8x8";
  const auto refused = [&](ioattn_pass pass, const std::string& text, const char* word,
                           ioattn_status wanted = IOATTN_INVALID_ARGUMENT) {
    SCOPED_TRACE(text);
    ioattn_plan* none = nullptr;
    expect_refused(
        ioattn_sdpa_plan_parse(pass, &call.problem, nullptr, &options, text.c_str(), &none), wanted,
        word);
    EXPECT_EQ(none, nullptr);
  };
  const std::string backward = "M:col_stream(form=h,c=8,rho=8,one_pass)" + tile + delta;
  ioattn_plan* good = nullptr;
  ASSERT_EQ(ioattn_sdpa_plan_parse(IOATTN_BACKWARD, &call.problem, nullptr, &options,
                                   backward.c_str(), &good),
            IOATTN_OK)
      << ioattn_last_error();
  const Plan parsed(good);

  for (const std::string& text : {std::string(), std::string("M:row_stream()"), forward + " ",
                                  "M:row_stream(form=h,stored)" + tile, backward})
    refused(IOATTN_FORWARD, text, "not a plan of the forward pass of SDPA");
  for (const std::string& text : {forward, backward.substr(0, backward.find(" ; "))})
    refused(IOATTN_BACKWARD, text, "not a plan of these gradients of SDPA");
  refused(IOATTN_FORWARD, "M:row_stream(form=h,r=2199023255552,c=1,rho=1,stored)" + tile,
          "exceeds 2^40");
  refused(IOATTN_BACKWARD, "M:col_stream(form=h,c=8,rho=2199023255552,one_pass)" + tile + delta,
          "exceeds 2^40");
  refused(IOATTN_BACKWARD,
          "M:col_stream(form=h,c=8,rho=8,one_pass)" + tile + " ; delta=8x2199023255552",
          "exceeds 2^40");
  refused(IOATTN_FORWARD, forward.substr(0, forward.find(" > reg:")) + " > reg:scalar(1x999)",
          "register tile");
  // Of the kernels' tile one side alone is another.
  refused(IOATTN_FORWARD, forward.substr(0, forward.size() - 1) + "9)", "register tile");
  refused(IOATTN_FORWARD,
          forward.substr(0, forward.rfind('(') + 1) + "9" + forward.substr(forward.rfind('(') + 1),
          "register tile");
}

// Blocks that no planner chooses give other sums, but right ones.
TEST(SdpaPlanStatus, AnyBlocksAreRight) {
  SdpaCall<double> call(small, Layout::padded);
  const std::string made = text_of(ioattn_plan_text, create(IOATTN_FORWARD, call.problem, nullptr));
  const std::string tile = made.substr(made.find(" > reg:"));
  const auto parsed = [&](ioattn_pass pass, const std::string& text) {
    return plan_of_text(pass, call.problem, nullptr, text);
  };
  for (const char* blocks : {"r=7,c=3,rho=4", "r=1,c=1,rho=9", "r=1000,c=1000,rho=1000"}) {
    const std::string rows = std::string("M:row_stream(form=h,") + blocks + ",stored)" + tile;
    for (const char* keys : {"c=5,rho=3", "c=1000,rho=1000"}) {
      for (const char* delta : {"1x1", "5x3", "1000x1000"}) {
        SCOPED_TRACE(rows + keys + delta);
        const Plan forward = parsed(IOATTN_FORWARD, rows);
        const Plan backward = parsed(IOATTN_BACKWARD, rows + " ; M:col_stream(form=h," + keys +
                                                          ")" + tile + " ; delta=" + delta);
        const Plan one_pass =
            parsed(IOATTN_BACKWARD, std::string("M:col_stream(form=h,") + keys + ",one_pass)" +
                                        tile + " ; delta=" + delta);
        call.poison();
        EXPECT_EQ(execute_forward(forward, &call, nullptr, 0), IOATTN_OK);
        call.expect_forward();
        for (const Plan* plan : {&backward, &one_pass}) {
          Workspace workspace(*plan, 3);
          EXPECT_EQ(execute_backward(*plan, &call, workspace.data(), workspace.size()), IOATTN_OK);
          call.expect_backward();
          EXPECT_TRUE(workspace.stayed_inside());
        }
      }
    }
  }
}

// Of a size whose 150 queries were one block: of more queries a block has whole strips, and strips
// are the same for any number of threads, under a mask, too.
TEST(SdpaPlanExecution, OfAnotherSizeAreTheSameBitsForAnyThreads) {
  SdpaCall<float> call({1, 1, 1, 250, 300, 32, 32});
  call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
  call.problem.window_left = 65;
  call.problem.window_right = 31;
  const std::string made = text_of(ioattn_plan_text, create(IOATTN_FORWARD, call.problem, nullptr));
  const std::string tile = made.substr(made.find(" > reg:"));
  std::vector<float> one;
  for (const int threads : thread_counts) {
    ioattn_options options = default_options();
    options.threads = threads;
    const Plan plan = plan_of_text(IOATTN_FORWARD, call.problem, &options,
                                   "M:row_stream(form=h,r=150,c=256,rho=64,stored)" + tile);
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(text_of(ioattn_plan_text, plan),
              "M:row_stream(form=h,r=128,c=256,rho=64,stored)" + tile);
    call.poison();
    ASSERT_EQ(execute_forward(plan, &call, nullptr, 0), IOATTN_OK);
    call.expect_forward();
    const std::vector<float> values = call.values();
    if (threads == 1) one = values;
    EXPECT_EQ(std::memcmp(one.data(), values.data(), one.size() * sizeof(float)), 0) << threads;
  }
}

TEST(SdpaPlanStatus, AreForOneProblem) {
  SdpaCall<float> call(small);
  call.problem.mask = IOATTN_MASK_WINDOW_TOP_LEFT;
  call.problem.window_left = 4;
  call.problem.window_right = 1;
  call.problem.scale = 0.5;
  const Plan forward = create(IOATTN_FORWARD, call.problem, nullptr);
  const Plan backward = create(IOATTN_BACKWARD, call.problem, nullptr, &call.gradients);
  const auto both_refused = [&](const char* word) {
    expect_refused(execute_forward(forward, &call, nullptr, 0), IOATTN_INVALID_ARGUMENT, word);
    expect_refused(execute_backward(backward, &call, nullptr, 0), IOATTN_INVALID_ARGUMENT, word);
  };
  const std::function<void(ioattn_sdpa_problem*)> changes[] = {
      [](auto* p) { p->batch = 1; },
      [](auto* p) { p->kv_heads = 4; },
      [](auto* p) { p->heads = 2; },
      [](auto* p) { p->n -= 1; },
      [](auto* p) { p->m -= 1; },
      [](auto* p) { p->d -= 1; },
      [](auto* p) { p->dv -= 1; },
      [](auto* p) { p->dtype = IOATTN_F64; },
      [](auto* p) { p->scale = 0; },
      [](auto* p) { p->mask = IOATTN_MASK_NONE; },
      [](auto* p) { p->mask = IOATTN_MASK_WINDOW_BOTTOM_RIGHT; },
      [](auto* p) { p->window_left = 3; },
      [](auto* p) { p->window_right = -1; },
      [](auto* p) { p->k_offset = 1; }};
  const ioattn_sdpa_problem good = call.problem;
  for (const auto& change : changes) {
    change(&call.problem);
    both_refused("the plan is for sdpa:b2,h4,kv2,n29,m34,d10,v7,f32,keys-4:1,s0.5, the inputs are");
    call.problem = good;
  }
  call.problem.struct_size = 1;
  both_refused("struct_size");
  call.problem = good;
  call.problem.q = nullptr;
  both_refused("Q is null");
  call.problem = good;
  call.problem.k_stride[2] = 4;
  both_refused("K: a row stride of 4 is below");
  call.problem = good;
  // The same mask and scale said in another way.
  call.problem.q_offset = call.problem.k_offset = 5;
  EXPECT_TRUE(call.untouched());
  EXPECT_EQ(execute_forward(forward, &call, nullptr, 0), IOATTN_OK) << ioattn_last_error();
  EXPECT_EQ(execute_backward(backward, &call, nullptr, 0), IOATTN_OK) << ioattn_last_error();
  call.problem.scale = 0;
  const Plan of_default = create(IOATTN_FORWARD, call.problem, nullptr);
  call.problem.scale = 1 / std::sqrt(double(good.d));
  EXPECT_EQ(execute_forward(of_default, &call, nullptr, 0), IOATTN_OK) << ioattn_last_error();
}

TEST(SdpaPlanStatus, AreForOnePassSetAndKind) {
  SdpaCall<float> call(small);
  const ioattn_status invalid = IOATTN_INVALID_ARGUMENT;
  const Plan forward = create(IOATTN_FORWARD, call.problem, nullptr);
  const Plan all = create(IOATTN_BACKWARD, call.problem, nullptr);  // null: all three
  expect_refused(execute_forward(all, &call, nullptr, 0), invalid, "a backward pass");
  expect_refused(execute_backward(forward, &call, nullptr, 0), invalid, "a forward pass");
  const ioattn_sdpa_gradients good = call.gradients;
  for (void* ioattn_sdpa_gradients::*unwanted :
       {&ioattn_sdpa_gradients::dq, &ioattn_sdpa_gradients::dk, &ioattn_sdpa_gradients::dv}) {
    call.gradients.*unwanted = nullptr;
    const Plan fewer = create(IOATTN_BACKWARD, call.problem, nullptr, &call.gradients);
    expect_refused(execute_backward(all, &call, nullptr, 0), invalid, "gradients");
    call.gradients = good;
    expect_refused(execute_backward(fewer, &call, nullptr, 0), invalid, "gradients");
  }
  call.gradients.accumulate = 1;
  expect_refused(execute_backward(all, &call, nullptr, 0), invalid, "accumulate");
  call.gradients = good;
  call.gradients.struct_size = 0;
  expect_refused(execute_backward(all, &call, nullptr, 0), invalid, "struct_size");
  call.gradients = good;

  const Plan null;
  expect_refused(execute_forward(null, &call, nullptr, 0), invalid, "plan is null");
  expect_refused(execute_backward(null, &call, nullptr, 0), invalid, "plan is null");
  expect_refused(ioattn_sdpa_execute_forward(forward.get(), nullptr, call.o.data(), nullptr,
                                             nullptr, nullptr, nullptr, 0),
                 invalid, "problem is null");
  const auto backward = [&](const void* d_o, const void* o, const void* lse,
                            const ioattn_sdpa_gradients* gradients) {
    return ioattn_sdpa_execute_backward(all.get(), &call.problem, d_o, nullptr, o, nullptr, lse,
                                        nullptr, gradients, nullptr, 0);
  };
  const void *d_o = call.d_o.data(), *o = call.o.data(), *lse = call.lse.data();
  expect_refused(backward(nullptr, o, lse, &good), invalid, "dO is null");
  expect_refused(backward(d_o, nullptr, lse, &good), invalid, "O is null");
  expect_refused(backward(d_o, o, nullptr, &good), invalid, "LSE is null");
  expect_refused(backward(d_o, o, lse, nullptr), invalid, "gradients is null");

  // Plans of the layer problem, and of SDPA for a layer.
  ioattn_layer_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.n = shape.m = shape.d = shape.dv = 4;
  ioattn_plan* made = nullptr;
  ASSERT_EQ(ioattn_layer_plan_create(IOATTN_FORWARD, &shape, nullptr, nullptr, &made), IOATTN_OK);
  const Plan of_layer(made);
  expect_refused(execute_forward(of_layer, &call, nullptr, 0), invalid,
                 "the plan is of the layer problem, not of SDPA");
  expect_refused(execute_backward(of_layer, &call, nullptr, 0), invalid, "not of SDPA");
  LayerCall<float> layer({4, 4, 4, 4, Ties::none}, 0);
  expect_refused(ioattn_layer_execute_forward(forward.get(), &layer.problem, layer.o.data(), 0,
                                              layer.lse.data(), nullptr, 0),
                 invalid, "the plan is of SDPA, not of the layer problem");
  ioattn_layer_gradients dx = {};
  dx.struct_size = sizeof dx;
  dx.dx = layer.dx.data();
  expect_refused(
      ioattn_layer_execute_backward(all.get(), &layer.problem, layer.d_o.data(), 0, layer.o.data(),
                                    0, layer.lse.data(), &dx, nullptr, 0),
      invalid, "not of the layer problem");
  EXPECT_TRUE(layer.untouched());
  EXPECT_TRUE(call.untouched());

  // One output of the forward pass.
  SdpaCall<float> expected(small);
  ASSERT_EQ(expected.forward(), IOATTN_OK);
  Workspace workspace(forward, 1);
  ASSERT_EQ(
      ioattn_sdpa_execute_forward(forward.get(), &call.problem, nullptr, nullptr, call.lse.data(),
                                  nullptr, workspace.data(), workspace.size()),
      IOATTN_OK);
  EXPECT_TRUE(same_bits(call.lse.dense().values, expected.lse.dense().values));
  ASSERT_EQ(ioattn_sdpa_execute_forward(forward.get(), &call.problem, call.o.data(), nullptr,
                                        nullptr, nullptr, workspace.data(), workspace.size()),
            IOATTN_OK);
  EXPECT_TRUE(same_bits(call.o.dense().values, expected.o.dense().values));
  EXPECT_TRUE(workspace.stayed_inside());
}

// Without keys, queries, columns or heads; what the one call does, in no workspace.
TEST(SdpaPlanExecution, OfEmptyProblems) {
  for (const SdpaSizes& sizes : {SdpaSizes{0, 2, 1, 5, 4, 3, 2}, SdpaSizes{2, 0, 1, 5, 4, 3, 2},
                                 SdpaSizes{1, 0, 0, 5, 4, 3, 2}, SdpaSizes{1, 2, 1, 0, 4, 3, 2},
                                 SdpaSizes{1, 2, 1, 5, 0, 3, 2}, SdpaSizes{1, 2, 1, 5, 4, 0, 2},
                                 SdpaSizes{1, 2, 1, 5, 4, 3, 0}}) {
    SdpaCall<double> call(sizes), expected(sizes);
    SCOPED_TRACE(std::to_string(sizes.batch) + " " + std::to_string(sizes.heads) + " " +
                 std::to_string(sizes.n) + " " + std::to_string(sizes.m) + " " +
                 std::to_string(sizes.d) + " " + std::to_string(sizes.dv));
    double some = 0;
    for (SdpaCall<double>* of : {&call, &expected}) {  // an array without elements may be null
      for (void** output : {&of->gradients.dq, &of->gradients.dk, &of->gradients.dv})
        if (*output == nullptr) *output = &some;
    }
    const Plan forward = read_and_told(create(IOATTN_FORWARD, call.problem, nullptr),
                                       IOATTN_FORWARD, call.problem, nullptr);
    const Plan backward = read_and_told(create(IOATTN_BACKWARD, call.problem, nullptr),
                                        IOATTN_BACKWARD, call.problem, nullptr);
    ASSERT_EQ(expected.forward(), IOATTN_OK) << ioattn_last_error();
    ASSERT_EQ(expected.backward(), IOATTN_OK) << ioattn_last_error();
    Workspace first(forward, 1), second(backward, 1);
    EXPECT_EQ(execute_forward(forward, &call, first.data(), first.size()), IOATTN_OK)
        << ioattn_last_error();
    EXPECT_EQ(execute_backward(backward, &call, second.data(), second.size()), IOATTN_OK)
        << ioattn_last_error();
    EXPECT_TRUE(same_bits(call.values(), expected.values()));
    EXPECT_TRUE(first.stayed_inside() && second.stayed_inside());
    const bool computes = sizes.d == 0 && sizes.heads > 0;  // exp(0) for every key
    const bool only_lse = sizes.dv == 0;
    EXPECT_EQ(first.size() > 0, computes || only_lse);
    EXPECT_EQ(second.size() > 0, computes);
  }
}

// Only planned, so they may be as large as no array here.
TEST(SdpaPlanExecution, OfLargeProblems) {
  SdpaCall<float> call(small);
  ioattn_sdpa_problem problem = call.problem;
  ioattn_options options = default_options();
  problem.n = problem.m = 4096;
  for (const std::int64_t d : {32, 64, 128, 256, 512}) {
    problem.d = problem.dv = d;
    // On the way a level is chosen, or held in L3: a text is read back with its M.
    for (const int level : {2, 3}) {
      options.cache_level = level;
      read_and_told(create(IOATTN_FORWARD, problem, &options), IOATTN_FORWARD, problem, &options);
      read_and_told(create(IOATTN_BACKWARD, problem, &options), IOATTN_BACKWARD, problem, &options);
    }
  }
  // Nothing is filled by asking for a workspace.
  problem.n = 1;
  problem.m = 0;
  problem.d = problem.dv = std::int64_t{1} << 26;
  options.fast_memory_words = std::int64_t{1} << 40;
  for (const ioattn_pass pass : {IOATTN_FORWARD, IOATTN_BACKWARD}) {
    std::size_t bytes = 1;
    EXPECT_EQ(ioattn_plan_workspace_size(create(pass, problem, &options).get(), &bytes), IOATTN_OK);
    EXPECT_EQ(bytes, 0u);
  }
}

// One plan, several threads, each with its own workspace, outputs and strides.
TEST(SdpaPlanExecution, AreReentrant) {
  const SdpaSizes sizes = {2, 4, 2, 60, 70, 16, 12};
  SdpaCall<float> expected(sizes);
  ASSERT_EQ(expected.forward(), IOATTN_OK);
  ASSERT_EQ(expected.backward(), IOATTN_OK);
  const std::vector<float> values = expected.values();
  const Plan forward = create(IOATTN_FORWARD, expected.problem, nullptr);
  const Plan backward = create(IOATTN_BACKWARD, expected.problem, nullptr);
  expect_reentrant(forward, backward, values,
                   [&](Layout layout) { return SdpaCall<float>(sizes, layout); });
}

}  // namespace
}  // namespace ioattn_test
