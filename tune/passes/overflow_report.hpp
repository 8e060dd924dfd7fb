#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/plans/overflow_statistics.hpp"
#include "tune/text/report_json.hpp"

// Of each result that is rounded to 16 bits, how many finite elements became infinite.
namespace ioattn::tune {

using OverflowReport = std::vector<std::pair<std::string, index_t>>;

OverflowReport report_of(const OverflowCounts& counts,
                         const std::vector<api::RoundedResult>& results);

// Null, and no line, if nothing is rounded.
Json overflows_json(const OverflowReport& report);
std::string overflows_text(const OverflowReport& report);

}  // namespace ioattn::tune
