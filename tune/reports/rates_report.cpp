#include "tune/reports/rates_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "api/kernels_in_use.hpp"
#include "api/known/other_kernels.hpp"
#include "api/planning/session.hpp"
#include "api/plans/wisdom_explain.hpp"
#include "api/search/rates.hpp"
#include "tune/command_error.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {

bool measure_rates(bool again, int threads) {
  const kernels::Kernels* own = nullptr;
  require(api::selected_kernels(&own));
  // In bf16 there are all that a search tries.
  std::vector<const kernels::Kernels*> all = api::other_kernels(DType::bf16);
  all.insert(all.begin(), own);
  {
    const api::WisdomReading known;
    const auto knows = [&](const kernels::Kernels* kernels) {
      return api::knows_rates(*kernels, *known);
    };
    if (!again && std::all_of(all.begin(), all.end(), knows)) return false;
  }
  const api::RateMeter meter = api::meter_of(*own, api::granted_threads(threads));
  wisdom::Wisdom learned;
  const std::string date = api::date_now();
  for (const kernels::Kernels* kernels : all)
    api::learn_rates(*kernels, api::meter_of(*kernels, meter), date, &learned);
  api::change_wisdom([&](wisdom::Wisdom* wisdom) { wisdom->merge(learned); });
  return true;
}

Json known_rates() { return Json::parse(api::explain_wisdom())["rates"]; }

std::string rates_text(const Json& rates) {
  Table table({"rates", "multiply-adds per ns", "ns per word", "from L3", "a word costs", "from L3",
               "date"});
  for (const Json& one : rates) {
    const bool used = one["code"] == "ok";
    const auto number = [&](const char* name, double scale) {
      return fmt::format("{:.3g}", one[name].get<double>() * scale);
    };
    table.add({one["dtype"], number("multiply_adds_per_second", 1e-9),
               number("seconds_per_word", 1e9), number("seconds_per_inner_word", 1e9),
               used ? number("per_word", 1) : one["code"].get<std::string>(),
               used ? number("per_inner_word", 1) : "-", one["date"]});
  }
  return table.text();
}

Json price_json(const api::KnownPrice& price) {
  // Where words decide, a word costs more than all multiply-adds: no number of them says that.
  const bool of_words = price.price.of_words();
  return {{"per_word", of_words ? Json() : Json(price.price.per_word)},
          {"per_inner_word", of_words ? Json() : Json(price.price.per_inner_word)},
          {"origin", of_words ? "words" : price.origin()},
          {"code", name_of(price.wisdom.reason)},
          {"message", price.wisdom.message}};
}

std::string price_text(const api::KnownPrice& price) {
  if (price.price.of_words()) return "price: words decide";
  std::string text = fmt::format("price: a word is {:.3g} multiply-adds, {:.3g} from L3 to L2, {}",
                                 price.price.per_word, price.price.per_inner_word, price.origin());
  if (price.wisdom.is_ok()) return text;
  return text + fmt::format(" ({}: {})", name_of(price.wisdom.reason), price.wisdom.message);
}

}  // namespace ioattn::tune
