#include "api/wisdom_explain.hpp"

#include <algorithm>
#include <set>

#include "api/describe.hpp"
#include "api/sdpa.hpp"
#include "api/sdpa_wisdom.hpp"
#include "wisdom/text.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

// Texts of files and their names may hold anything.
void add_text(const char* key, const std::string& text, JsonObject* json) {
  json->add_json(key, wisdom::quoted(text));
}

void add_verdict(const Verdict& verdict, JsonObject* json) {
  json->add("code", name_of(verdict.reason));
  add_text("message", verdict.message, json);
}

std::string environment_json(const wisdom::Environment& environment) {
  JsonObject json;
  add_text("library", environment.library, &json);
  add_text("kernels", environment.kernels, &json);
  add_text("isa", environment.isa, &json);
  add_text("cpu", environment.cpu, &json);
  add_text("caches", environment.caches, &json);
  return json.text();
}

std::string file_json(const KnownWisdom::File& file) {
  JsonObject json;
  add_text("path", file.path, &json);
  json.add("records", file.records);
  add_verdict(file.verdict, &json);
  return json.text();
}

// Whether the least problem of the class takes the plan.
Verdict verdict_on(const wisdom::ProblemClass& of, const wisdom::Record& record) {
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
  add_text("class", to_text(of), &json);
  add_verdict(verdict_on(of, record), &json);
  add_text("plan", record.plan, &json);
  add_text("problem", record.problem, &json);
  json.add_number("seconds", record.seconds);
  json.add_number("mad", record.mad);
  json.add_number("estimate_seconds", record.estimate_seconds);
  json.add("rounds", record.rounds);
  json.add("rigor", name_of(record.rigor));
  add_text("date", record.date, &json);
  return json.text();
}

// Those of its tables: numbers of some types may have the kernels of a lesser one.
std::set<Isa> isas_of(const kernels::Kernels& kernels) {
  std::set<Isa> isas;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    isas.insert(kernels.tile(dtype).isa);
  return isas;
}

}  // namespace

std::string explain_wisdom() {
  const WisdomReading known;
  JsonObject json;
  json.add("off", known->places.off);
  add_text("file", known->places.user, &json);
  std::vector<std::string> files, records;
  for (const KnownWisdom::File& file : known->files) files.push_back(file_json(file));
  const kernels::Kernels* kernels = nullptr;
  const Status selected = selected_kernels(&kernels);
  if (selected.is_ok()) {
    json.add_json("environment", environment_json(known->environment(kernels->isa)));
    for (const Isa isa : isas_of(*kernels)) {
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
  return json.text();
}

}  // namespace ioattn::api
