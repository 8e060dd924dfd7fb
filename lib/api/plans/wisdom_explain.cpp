#include "api/plans/wisdom_explain.hpp"

#include <algorithm>
#include <set>

#include "api/kernels_in_use.hpp"
#include "api/known/sdpa_wisdom.hpp"
#include "api/planning/sdpa_planning.hpp"
#include "api/plans/describe.hpp"
#include "api/run/sdpa.hpp"
#include "api/search/layer_search.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

void add_verdict(const Verdict& verdict, JsonObject* json) {
  json->add("code", name_of(verdict.reason));
  json->add("message", verdict.message);
}

std::string environment_json(const wisdom::Environment& environment) {
  JsonObject json;
  json.add("library", environment.library);
  json.add("kernels", environment.kernels);
  json.add("isa", environment.isa);
  json.add("cpu", environment.cpu);
  json.add("caches", environment.caches);
  return json.text();
}

std::string file_json(const KnownWisdom::File& file) {
  JsonObject json;
  json.add("path", file.path);
  json.add("records", file.records);
  add_verdict(file.verdict, &json);
  return json.text();
}

Verdict verdict_on_layer(const wisdom::ProblemClass& of, const wisdom::Record& record) {
  LayerProblem problem;
  std::optional<GradientSet> set;
  if (!problem_of_class(of, &problem, &set)) {
    return {Reason::absent, "no problem of this version is of the class"};
  }
  plan::LayerRequest request;
  const Status status = LayerKind::request_of(problem, set, {}, &request);
  if (!status.is_ok()) return {Reason::blocks, status.message()};
  plan::LayerPlan plan;
  return read_plan(request, set, record, &plan);
}

// Whether the least problem of the class takes the plan.
Verdict verdict_on(const wisdom::ProblemClass& of, const wisdom::Record& record) {
  if (is_layer(of)) return verdict_on_layer(of, record);
  SdpaProblem problem;
  std::optional<SdpaSet> set;
  if (!parse_pass(of.op, &set) || !parse_dtype(of.dtype, &problem.dtype)) {
    return {Reason::absent, "no problem of this version is of the class"};
  }
  problem.shape = {1, 1, 1, index_t(1) << of.log2_n, index_t(1) << of.log2_m, of.d, of.dv, {}};
  plan::SdpaRequest request;
  const Status status = sdpa_request(problem, {}, &request);
  if (!status.is_ok()) return {Reason::blocks, status.message()};
  plan::SdpaPlan plan;
  return read_plan(request, set, record, &plan);
}

std::string record_json(const wisdom::ProblemClass& of, const wisdom::Record& record) {
  JsonObject json;
  json.add("class", to_text(of));
  add_verdict(verdict_on(of, record), &json);
  json.add("plan", record.plan);
  json.add("problem", record.problem);
  json.add_number("seconds", record.seconds);
  json.add_number("mad", record.mad);
  json.add_number("estimate_seconds", record.estimate_seconds);
  json.add("rounds", record.rounds);
  json.add("rigor", name_of(record.rigor));
  json.add("date", record.date);
  return json.text();
}

std::string rates_json(const std::string& dtype, const wisdom::Rates& rates,
                       const KnownPrice& price) {
  JsonObject json;
  json.add("dtype", dtype);
  add_verdict(price.wisdom, &json);
  json.add_number("multiply_adds_per_second", rates.multiply_adds);
  json.add_number("seconds_per_word", rates.word_seconds);
  json.add_number("seconds_per_inner_word", rates.inner_word_seconds);
  json.add("threads", rates.threads);
  json.add("date", rates.date);
  json.add_number("per_word", price.price.per_word);
  json.add_number("per_inner_word", price.price.per_inner_word);
  return json.text();
}

// Of the kernels of a type; those of other types are told with theirs.
void list_rates(const KnownWisdom& known, const kernels::Kernels& kernels,
                std::vector<std::string>* list) {
  for (const DType dtype : types_of_rates) {
    const Isa isa = kernels.tile(dtype).isa;
    const wisdom::Rates* rates = known.wisdom.rates_of(known.environment(isa), name_of(dtype));
    if (rates != nullptr)
      list->push_back(rates_json(name_of(dtype), *rates, known.price(isa, dtype)));
  }
}

// Those of its tables: numbers of some types may have the kernels of a lesser one.
std::set<Isa> isas_of(const kernels::Kernels& kernels) {
  std::set<Isa> isas;
  for (const DType dtype : types_of_rates) isas.insert(kernels.tile(dtype).isa);
  return isas;
}

// Of environments that no call has here, and what tells the first of these from them.
std::string others_json(const wisdom::Environment& other, const wisdom::Records& of,
                        const wisdom::Environment& here) {
  JsonObject json;
  json.add_json("environment", environment_json(other));
  json.add("records", static_cast<index_t>(of.size()));
  add_verdict(wisdom::compare(other, here), &json);
  return json.text();
}

}  // namespace

std::string explain_wisdom() {
  const WisdomReading known;
  JsonObject json;
  json.add("off", known->places.off);
  json.add("file", known->places.user);
  std::vector<std::string> files, records, rates, others;
  for (const KnownWisdom::File& file : known->files) files.push_back(file_json(file));
  const kernels::Kernels* kernels = nullptr;
  const Status selected = selected_kernels(&kernels);
  if (selected.is_ok()) {
    json.add_json("environment", environment_json(known->environment(kernels->isa)));
    list_rates(*known, *kernels, &rates);
    const std::set<Isa> used = isas_of(*kernels);
    for (const auto& [environment, of] : known->wisdom.known()) {
      const auto is_of = [&, &here = environment](Isa isa) {
        return known->environment(isa) == here;
      };
      if (!of.records.empty() && std::none_of(used.begin(), used.end(), is_of))
        others.push_back(others_json(environment, of.records, known->environment(kernels->isa)));
    }
    for (const Isa isa : used) {
      const wisdom::Records* all = known->wisdom.records_of(known->environment(isa));
      if (all == nullptr) continue;
      for (const auto& [of, record] : *all) records.push_back(record_json(of, record));
    }
  } else {
    add_verdict({Reason::isa, selected.message()}, &json);
  }
  std::sort(records.begin(), records.end());
  json.add_json("files", json_list(files));
  json.add("records_of_all", known->wisdom.size());
  json.add_json("records", json_list(records));
  json.add_json("others", json_list(others));
  json.add_json("rates", json_list(rates));
  return json.text();
}

}  // namespace ioattn::api
