#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "instruments/io_counter.hpp"
#include "plan/layer/planner.hpp"

namespace ioattn::tune {

using Json = nlohmann::ordered_json;

void print_json(const Json& json);

// Members reads, writes, created and footprint.
void add_count(const IoCost& count, Json* json);
// One object a phase: name and the members above.
Json phases_json(const std::vector<instruments::IoCounter::Phase>& phases);

// "1.50 MiB"
std::string bytes_text(index_t bytes);

}  // namespace ioattn::tune
