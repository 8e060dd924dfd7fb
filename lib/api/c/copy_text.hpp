#pragma once

#include <cstring>
#include <string>

#include "api/c/c_boundary.hpp"

namespace ioattn::api {

// Into a caller's buffer; *needed may be null, a null buffer only asks.
inline Status copy_text(const std::string& text, char* buffer, size_t size, size_t* needed) {
  if (needed != nullptr) *needed = text.size() + 1;
  if (buffer == nullptr) return Status::ok();
  if (size < text.size() + 1) {
    return Status::error(StatusCode::invalid_argument, "a buffer of %zu bytes is too small: %zu",
                         size, text.size() + 1);
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return Status::ok();
}

}  // namespace ioattn::api
