#pragma once

#include <string>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "tune/text/report_json.hpp"

// What was found of the machine.
namespace ioattn::tune {

Json machine_json(const machine::Machine& machine);
// Lines for people, each ending with '\n'.
std::string machine_text(const machine::Machine& machine, const kernels::Kernels& selected);

}  // namespace ioattn::tune
