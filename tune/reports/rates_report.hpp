#pragma once

#include <string>

#include "api/known/price.hpp"
#include "tune/text/report_json.hpp"

// How fast this machine is, and what estimates make of it.
namespace ioattn::tune {

// Measures the rates of this machine, unless all are known; whether it did. They are known to the
// process then, not yet saved.
bool measure_rates(bool again, int threads);

// Those that the process knows (ioattn_wisdom_explain), and as a table.
Json known_rates();
std::string rates_text(const Json& rates);

// Which price estimates have, and where it is from; as a line without its end.
Json price_json(const api::KnownPrice& price);
std::string price_text(const api::KnownPrice& price);

}  // namespace ioattn::tune
