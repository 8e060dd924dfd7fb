#pragma once

#include <string>
#include <vector>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "tune/passes/measured_pass.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {

// Lines for people, each ending with '\n'.
std::string machine_text(const machine::Machine& machine, const kernels::Kernels& selected);
std::string io_text(const std::vector<PassReport>& reports);

}  // namespace ioattn::tune
