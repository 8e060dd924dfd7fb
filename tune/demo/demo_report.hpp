#pragma once

#include <string>

#include "tune/demo/demo.hpp"

namespace ioattn::tune {

// Of a machine, plans, tables and what was learned.
void print_demo(const Demo& demo, const std::string& summary);
void print_demo_json(const Demo& demo, const std::string& summary);

}  // namespace ioattn::tune
