#pragma once

#include <string>

namespace ioattn_cli_test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ioattn_cli_test
