#pragma once

#include <string>

namespace ioattn::tune {

// Whole files; both throw RunError. What is written is there whole or not at all.
void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

}  // namespace ioattn::tune
