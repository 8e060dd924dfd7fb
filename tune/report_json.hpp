#pragma once

#include <nlohmann/json.hpp>

#include "machine/machine.hpp"
#include "plan/planner.hpp"

namespace ioattn::tune {

using Json = nlohmann::ordered_json;

Json machine_json(const machine::Machine& machine);
void print_json(const Json& json);

// "1.50 MiB"
std::string bytes_text(index_t bytes);

}  // namespace ioattn::tune
