#pragma once

#include <fmt/format.h>

#include <optional>

#include "api/search/tuned_kind.hpp"
#include "tune/command_error.hpp"
#include "tune/text/report_json.hpp"
#include "tune/text/table.hpp"

// What a search compares, of either problem (api::SdpaKind, api::LayerKind).
namespace ioattn::tune {

// A search that is over before anything is timed.
template <class Kind>
api::SearchReportOf<Kind> candidates_of(const typename Kind::Problem& problem,
                                        const typename Kind::Set& set,
                                        const api::RunOptions& options) {
  api::SearchReportOf<Kind> report;
  typename Kind::Request request;
  require(api::list_ways<Kind>(problem, set, options, &request, &report));
  return report;
}

// Of a candidate to the estimate: predicted where nothing was timed. Times are in multiply-adds of
// a plan's own instruction set: those of another have no ratio.
template <class Kind>
std::optional<double> predicted(const api::SearchReportOf<Kind>& report, std::size_t i) {
  const auto &candidate = report.candidates[i], &estimate = report.candidates[0];
  if (candidate.plan.tile.isa != estimate.plan.tile.isa) return std::nullopt;
  if (candidate.estimate.time <= 0 || estimate.estimate.time <= 0) return std::nullopt;
  return candidate.estimate.time / estimate.estimate.time;
}

// Each with its words, its predicted time beside that of the estimate, and what was timed.
template <class Kind>
Json candidates_json(const api::SearchReportOf<Kind>& report, const typename Kind::Set& set) {
  Json list = Json::array();
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const typename Kind::Candidate& candidate = report.candidates[i];
    const search::Timing& timing = report.timings[i];
    const IoCost total = candidate.estimate.cost.total();
    Json json;
    json["plan"] = Kind::text_of(candidate.plan, set, report.timed);
    json["made_from"] = candidate.made_from;
    json["words"] = total.words();
    json["footprint"] = total.footprint;
    const std::optional<double> time = predicted(report, i);
    json["predicted"] = time ? Json(*time) : Json();
    json["rounds"] = timing.rounds();
    json["median"] = timing.rounds() > 0 ? Json(timing.median()) : Json();
    list.push_back(json);
  }
  return list;
}

template <class Kind>
std::string candidates_text(const api::SearchReportOf<Kind>& report,
                            const typename Kind::Set& set) {
  Table table({"made from", "plan", "words", "footprint", "predicted"}, 2);
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const typename Kind::Candidate& candidate = report.candidates[i];
    const IoCost total = candidate.estimate.cost.total();
    const std::optional<double> time = predicted(report, i);
    table.add({candidate.made_from, Kind::text_of(candidate.plan, set, report.timed),
               grouped(total.words()), grouped(total.footprint), time ? ratio_text(*time) : "-"});
  }
  return table.text();
}

// Why a plan won.
std::string why_of(const api::PlanOrigin& origin, api::Objective objective);

}  // namespace ioattn::tune
