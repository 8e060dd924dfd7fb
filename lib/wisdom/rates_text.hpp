#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "wisdom/rates.hpp"

namespace ioattn::wisdom {

// [{"dtype":"f32","multiply_adds_per_second":...,"seconds_per_word":...,
//   "seconds_per_inner_word":...,"threads":2,"date":...}, ...]
nlohmann::json rates_json(const RatesByType& rates);

// The later of two of one type; fields of later versions are kept. Empty, or what is wrong.
std::string read_rates(const nlohmann::json& list, RatesByType* rates);

}  // namespace ioattn::wisdom
