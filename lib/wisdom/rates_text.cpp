#include "wisdom/rates_text.hpp"

#include <cmath>

#include "wisdom/text_reader.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::wisdom {
namespace {

struct NumberField {
  const char* name;
  double Rates::*value;
};
constexpr NumberField numbers[] = {{"multiply_adds_per_second", &Rates::multiply_adds},
                                   {"seconds_per_word", &Rates::word_seconds},
                                   {"seconds_per_inner_word", &Rates::inner_word_seconds}};

bool take_name(Json* object, const char* name, std::string* text) {
  const Json value = take(object, name);
  return value.is_string() && is_name(*text = value.get<std::string>());
}

std::string read_one(Json object, RatesByType* all) {
  if (!object.is_object()) return "is no object";
  std::string dtype;
  Rates rates;
  for (const NumberField& field : numbers) {
    const Json value = take(&object, field.name);
    rates.*field.value = value.is_number() ? value.get<double>() : -1;
    if (!(rates.*field.value >= 0) || !std::isfinite(rates.*field.value)) {
      return "has no number \"" + std::string(field.name) + "\"";
    }
  }
  const Json threads = take(&object, "threads");
  constexpr index_t most_threads = 1 << 20;
  rates.threads = threads.is_number_unsigned() ? *threads.get_ptr<const index_t*>() : 0;
  if (rates.threads < 1 || rates.threads > most_threads) {
    return "has no number \"threads\" from 1 to " + std::to_string(most_threads);
  }
  if (!take_name(&object, "dtype", &dtype)) return "has no name \"dtype\"";
  if (!take_name(&object, "date", &rates.date)) return "has no text \"date\"";
  if (!object.empty()) rates.unknown = printed(object);
  keep_later(dtype, rates, all);
  return "";
}

}  // namespace

Json rates_json(const RatesByType& rates) {
  Json list = Json::array();
  for (const auto& [dtype, one] : rates) {
    Json object = Json::parse(one.unknown, nullptr, false);
    if (!object.is_object()) object = Json::object();
    object["dtype"] = dtype;
    for (const NumberField& field : numbers) object[field.name] = one.*field.value;
    object["threads"] = one.threads;
    object["date"] = one.date;
    list.push_back(std::move(object));
  }
  return list;
}

std::string read_rates(const Json& list, RatesByType* rates) {
  if (!list.is_array()) return "\"rates\" is not a list";
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string wrong = read_one(list[i], rates);
    if (!wrong.empty()) return "rates " + std::to_string(i) + " " + wrong;
  }
  return "";
}

}  // namespace ioattn::wisdom
