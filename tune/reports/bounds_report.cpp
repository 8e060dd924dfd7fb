#include "tune/reports/bounds_report.hpp"

#include <fmt/format.h>

#include "api/checks/validate.hpp"
#include "api/run/sdpa.hpp"
#include "theory/linear_attention.hpp"
#include "theory/sdpa_bounds.hpp"
#include "tune/command_error.hpp"
#include "tune/options/options.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

using theory::AlgorithmClass;
using theory::BoundSet;

struct NamedBound {
  const char* name;
  double BoundSet::*words;
  AlgorithmClass algorithms;
};
constexpr NamedBound named_bounds[] = {{"compulsory", &BoundSet::compulsory, AlgorithmClass::P},
                                       {"a2", &BoundSet::a2, AlgorithmClass::P},
                                       {"a3", &BoundSet::a3, AlgorithmClass::P},
                                       {"G3", &BoundSet::g3, AlgorithmClass::P},
                                       {"b2", &BoundSet::b2, AlgorithmClass::F},
                                       {"c", &BoundSet::c, AlgorithmClass::F},
                                       {"b3", &BoundSet::b3, AlgorithmClass::F}};
constexpr AlgorithmClass classes[] = {AlgorithmClass::P, AlgorithmClass::F};

// What holds in the pebble game holds for class F too.
bool holds(const NamedBound& bound, AlgorithmClass algorithms) {
  return bound.algorithms == AlgorithmClass::P || algorithms == AlgorithmClass::F;
}

// One pass of a problem, or one set of its outputs.
struct Computation {
  std::string outputs;
  BoundSet bounds;
};

std::vector<Computation> computations_of(const LayerProblem& problem, index_t M) {
  return {{"dX", theory::layer_bounds(Pass::backward, problem.shape, M, problem.batch)},
          {"O", theory::layer_bounds(Pass::forward, problem.shape, M, problem.batch)}};
}

std::vector<Computation> computations_of(const SdpaShape& shape, index_t M) {
  const bool bias = shape.has_bias();
  std::vector<Computation> list = {{"O, LSE", theory::sdpa_forward_bounds(shape, M)}};
  const std::pair<const char*, SdpaSet> sets[] = {{"dQ", {true, false, false}},
                                                  {"dK, dV", {false, true, true}},
                                                  {"dQ, dK, dV", {true, true, true}}};
  for (const auto& [name, set] : sets) {
    list.push_back({name, theory::sdpa_backward_bounds(shape, set, M)});
  }
  if (bias) {
    const SdpaSet all = {true, true, true, false, true};
    list.push_back({"dQ, dK, dV, dBias", theory::sdpa_backward_bounds(shape, all, M)});
  }
  return list;
}

void print(const std::string& problem, index_t M, const std::vector<Computation>& list, bool json) {
  if (!json) {
    fmt::print("{}; M = {} words\n", problem, grouped(M));
    for (const Computation& of : list) {
      fmt::print("\n{}: lower bounds on words moved\n{}", of.outputs, classes_text(of.bounds));
    }
    return;
  }
  Json all;
  all["problem"] = problem;
  all["M"] = M;
  all["computations"] = Json::array();
  for (const Computation& of : list) {
    Json entry;
    entry["outputs"] = of.outputs;
    for (const AlgorithmClass algorithms : classes) {
      entry["classes"].push_back(class_json(algorithms, of.bounds));
    }
    all["computations"].push_back(std::move(entry));
  }
  print_json(all);
}

}  // namespace

Json class_json(AlgorithmClass algorithms, const BoundSet& bounds) {
  const theory::Bound best = bounds.best(algorithms);
  Json json;
  json["class"] = name_of(algorithms);
  json["lower_bound"] = best.words;
  json["bound"] = best.name;
  json["assumption"] = best.assumption;
  for (const NamedBound& bound : named_bounds) {
    if (holds(bound, algorithms)) json["bounds"][bound.name] = bounds.*bound.words;
  }
  return json;
}

std::string classes_text(const BoundSet& bounds) {
  Table table({"class", "compulsory", "a2", "a3", "G3", "b2", "c", "b3", "best", "by"});
  std::string notes;
  for (const AlgorithmClass algorithms : classes) {
    const theory::Bound best = bounds.best(algorithms);
    std::vector<std::string> row = {name_of(algorithms)};
    for (const NamedBound& bound : named_bounds) {
      row.push_back(holds(bound, algorithms) ? grouped(bounds.*bound.words) : "-");
    }
    row.push_back(grouped(best.words));
    row.push_back(best.name);
    table.add(row);
    notes += fmt::format("  {} ({}): {}\n", name_of(algorithms), best.name, best.assumption);
  }
  return table.text() + notes;
}

void print_problem_bounds(const std::string& text, index_t M, bool json) {
  if (is_sdpa(text)) {
    const SdpaProblem problem = sdpa_of(text);
    print(to_text(problem), M, computations_of(problem.shape, M), json);
    return;
  }
  const LayerProblem problem = layer_problem(text, {}, {});
  require(api::validate_problem(problem));
  print(to_text(problem), M, computations_of(problem, M), json);
}

Json sizes_json(const LayerShape& shape, index_t M) {
  return {
      {"n", shape.n}, {"m", shape.m}, {"d", shape.d}, {"dv", shape.dv}, {"tie", name_of(shape.tie)},
      {"M", M}};
}

void print_linear(const LayerShape& shape, index_t M, bool json) {
  struct OfPass {
    Pass pass;
    theory::ScheduleCost cost;
    theory::Bound with_softmax;
  };
  std::vector<OfPass> passes;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const auto blocks = theory::linear_blocks(pass, shape, M);
    if (!blocks) {
      throw UsageError(fmt::format("M = {} is too small for a product; the least is {}", M,
                                   theory::linear_least_M));
    }
    passes.push_back({pass, theory::linear_cost(pass, shape, *blocks),
                      theory::lower_bound(pass, AlgorithmClass::P, shape, M)});
  }
  if (json) {
    Json all = sizes_json(shape, M);
    all["passes"] = Json::array();
    for (const OfPass& of : passes) {
      Json entry;
      entry["pass"] = name_of(of.pass);
      entry["words"] = of.cost.total().words();
      entry["footprint"] = of.cost.total().footprint;
      for (int i = 0; i < of.cost.phase_count; ++i) {
        const theory::PhaseCost& phase = of.cost.phases[static_cast<std::size_t>(i)];
        Json item;
        item["name"] = phase.name;
        item["words"] = phase.cost.words();
        entry["phases"].push_back(item);
      }
      entry["softmax_lower_bound"] = of.with_softmax.words;
      entry["bound"] = of.with_softmax.name;
      all["passes"].push_back(std::move(entry));
    }
    print_json(all);
    return;
  }
  fmt::print(
      "Without softmax, O = A1 (X (A2^T A3)) Y and dX = ((A1^T dO) Y^T) (A3^T A2): no product has "
      "n x "
      "m\nentries, and the bounds for attention do not hold.\n");
  for (const OfPass& of : passes) {
    fmt::print("\n{} pass, M = {} words\n", name_of(of.pass), grouped(M));
    Table table({"product", "reads", "writes", "footprint"});
    const auto add = [&table](const char* name, const IoCost& cost) {
      table.add({name, grouped(cost.reads), grouped(cost.writes), grouped(cost.footprint)});
    };
    for (int i = 0; i < of.cost.phase_count; ++i) {
      const theory::PhaseCost& phase = of.cost.phases[static_cast<std::size_t>(i)];
      add(phase.name, phase.cost);
    }
    add("all", of.cost.total());
    fmt::print("{}  with softmax at least {} ({}), {} as many\n", table.text(),
               grouped(of.with_softmax.words), of.with_softmax.name,
               ratio_text(of.with_softmax.words / static_cast<double>(of.cost.total().words())));
  }
}

}  // namespace ioattn::tune
