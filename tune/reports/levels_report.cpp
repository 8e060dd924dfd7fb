#include "tune/reports/levels_report.hpp"

#include <fmt/format.h>

#include "api/known/other_kernels.hpp"
#include "api/known/wisdom_state.hpp"
#include "machine/machine.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "theory/bounds.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

index_t words_of_cache(int level, DType dtype) {
  const machine::CacheLevel* cache = machine::this_machine().cache(level);
  return cache == nullptr ? 0 : machine::fast_memory(*cache, dtype).words;
}

using Level = LevelsReport::Level;

template <class Request, class Set, class Plan>
LevelsReport report_of(const Request& request, const LayerShape& shape, DType dtype, const Set& set,
                       const Plan& plan, const std::string& of) {
  const plan::TimeParts parts = plan::time_parts(request, set, plan, words_of_cache(1, dtype));
  LevelsReport report;
  report.of = of;
  report.total = parts.total();
  report.multiply_adds_per_second =
      api::multiply_adds_per_second(api::WisdomReading()->wisdom, plan.tile.isa, dtype);
  report.levels.push_back({"kernels", 0, "", -1, parts.products, "multiply-adds, operands in L2"});
  const auto add = [&](const std::string& name, index_t M, double words, double time,
                       const std::string& says) {
    report.levels.push_back({name, M, name_of(theory::regime(shape, M)), words, time, says});
  };
  const bool is_outer = plan.level == plan::outer_level && request.level != plan::outer_level;
  const index_t L1 = words_of_cache(1, dtype);
  const std::string own = request.level;
  if (own != "L1" && parts.kernel_words >= 0) {
    add("L1", L1, parts.kernel_words, 0, "within the rate of the kernels");
  } else if (own != "L1") {
    add("L1", L1, -1, -1, "within the rate of the kernels");
  }
  if (is_outer) {
    add(own, request.M, parts.inner_words, parts.inner_time, "from L3");
    add(plan.level, request.outer_M, static_cast<double>(parts.outer_words), parts.outer_time,
        "from memory");
    return report;
  }
  add(own, request.M, static_cast<double>(parts.outer_words), parts.outer_time, "from memory");
  if (own == "L2" && request.outer_M > 0) {
    add(plan::outer_level, request.outer_M, -1, -1, "holds no blocks");
  }
  return report;
}

}  // namespace

LevelsReport levels_of(const plan::SdpaRequest& request, const std::optional<SdpaSet>& set,
                       const plan::SdpaPlan& plan) {
  return report_of(request, request.shape.head(), request.dtype, set, plan,
                   "a head without its mask");
}

LevelsReport levels_of(const plan::LayerRequest& request, const std::optional<GradientSet>& set,
                       const plan::LayerPlan& plan) {
  return report_of(request, request.problem.shape, request.problem.dtype, set, plan, "an entry");
}

Json levels_json(const LevelsReport& report) {
  const auto number = [](double value) { return value < 0 ? Json() : Json(value); };
  Json json;
  json["of"] = report.of;
  json["total"] = report.total;
  json["multiply_adds_per_second"] =
      report.multiply_adds_per_second > 0 ? Json(report.multiply_adds_per_second) : Json();
  for (const Level& level : report.levels) {
    json["levels"].push_back({{"level", level.name},
                              {"M", level.M > 0 ? Json(level.M) : Json()},
                              {"regime", level.M > 0 ? Json(level.regime) : Json()},
                              {"words", number(level.words)},
                              {"time", number(level.time)},
                              {"says", level.says}});
  }
  return json;
}

std::string levels_text(const LevelsReport& report) {
  Table table({"level", "M", "regime", "words", "multiply-adds", "of all", "ms", "is"}, 1);
  const auto grouped_or_none = [](double value) {
    return value < 0 ? std::string("-") : grouped(static_cast<index_t>(value));
  };
  const auto ms = [&](double time) {
    return time < 0 || report.multiply_adds_per_second <= 0
               ? std::string("-")
               : fmt::format("{:.3g}", 1e3 * time / report.multiply_adds_per_second);
  };
  for (const Level& level : report.levels) {
    table.add({level.name, level.M > 0 ? grouped(level.M) : "-", level.M > 0 ? level.regime : "-",
               grouped_or_none(level.words), grouped_or_none(level.time),
               level.time < 0 ? "-" : fmt::format("{:.0f}%", 100 * level.time / report.total),
               ms(level.time), level.says});
  }
  return fmt::format("predicted for {}, on one thread, in the time of so many multiply-adds:\n{}",
                     report.of, table.text());
}

}  // namespace ioattn::tune
