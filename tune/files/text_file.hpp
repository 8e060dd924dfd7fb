#pragma once

#include <string>
#include <vector>

namespace ioattn::tune {

struct NamedText {
  std::string path, text;
};

// Whole files; all throw RunError. What is written is there whole, all of it, or not at all.
void write_texts(const std::vector<NamedText>& texts);
void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

}  // namespace ioattn::tune
