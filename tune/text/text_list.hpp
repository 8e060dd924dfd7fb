#pragma once

#include <string>
#include <vector>

namespace ioattn::tune {

// What is between the separators: of n of them n + 1 texts, any of which may be empty.
inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace ioattn::tune
