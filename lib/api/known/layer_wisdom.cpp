#include "api/known/layer_wisdom.hpp"

#include <algorithm>

#include "api/checks/validate.hpp"
#include "api/known/known_plan.hpp"
#include "api/known/pass_name.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

constexpr std::string_view prefix = "layer:";

}  // namespace

std::string name_of_pass(const std::optional<GradientSet>& set) {
  return name_of_pass(set, named_gradients);
}

bool parse_pass(const std::string& name, std::optional<GradientSet>* set) {
  return parse_pass(name, named_gradients, set);
}

wisdom::ProblemClass class_of(const LayerProblem& problem, const std::optional<GradientSet>& set) {
  const LayerShape& shape = problem.shape;
  std::string op = std::string(prefix) + name_of_pass(set);
  if (shape.tie != Tie::none) op += shape.tie == Tie::kv ? ",tied" : ",self";
  if (shape.mask.hides()) op += "," + mask_text(shape);
  return {std::move(op), name_of(problem.dtype),   shape.d,
          shape.dv,      wisdom::log2_of(shape.n), wisdom::log2_of(shape.m)};
}

bool is_layer(const wisdom::ProblemClass& of) { return of.op.rfind(prefix, 0) == 0; }

bool problem_of_class(const wisdom::ProblemClass& of, LayerProblem* problem,
                      std::optional<GradientSet>* set) {
  if (!is_layer(of)) return false;
  const std::size_t comma = std::min(of.op.find(','), of.op.size());
  if (!parse_pass(of.op.substr(prefix.size(), comma - prefix.size()), set)) return false;
  if (*set && ((*set)->dW_Q || (*set)->dW_K)) (*set)->dk = of.d;
  const auto size = [](int log2) { return std::to_string(index_t(1) << log2); };
  const std::string text = std::string(prefix) + "n" + size(of.log2_n) + ",m" + size(of.log2_m) +
                           ",d" + std::to_string(of.d) + ",v" + std::to_string(of.dv) + "," +
                           of.dtype + of.op.substr(comma);
  std::string error;
  return parse_problem(text, problem, &error);
}

Verdict read_plan(const plan::LayerRequest& request, const std::optional<GradientSet>& set,
                  const wisdom::Record& record, plan::LayerPlan* plan) {
  plan::LayerPlan parsed;
  std::string error;
  if (!plan::parse_plan_of(record.plan, set, request.problem.shape.tie, &parsed, &error)) {
    return {Reason::plan, error};
  }
  Verdict verdict = check_place(request, parsed, request.problem.dtype);
  if (!verdict.is_ok()) return verdict;
  const Status valid = validate_plan(parsed, set, request.problem.shape, request.problem.dtype);
  if (!valid.is_ok()) return {Reason::blocks, valid.message()};
  if (request.memory_limit_bytes < 0 && stores_scores(parsed.blocks.schedule)) {
    return {Reason::blocks, std::string(name_of(parsed.blocks.schedule)) +
                                " stores n x m scores, which takes a limit on memory"};
  }
  take_whole_strips(parsed.blocks.schedule, request.problem.shape.n, &parsed.blocks.rows);
  plan::Estimate estimate;
  plan::estimate_costs(request, set, parsed, &estimate);
  verdict = check_size(request, parsed, estimate);
  if (verdict.is_ok()) *plan = std::move(parsed);
  return verdict;
}

}  // namespace ioattn::api
