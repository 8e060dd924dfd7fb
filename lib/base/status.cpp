#include "base/status.hpp"

#include <cstdarg>
#include <cstdio>

namespace ioattn {

const char* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::ok: return "ok";
    case StatusCode::invalid_argument: return "invalid argument";
    case StatusCode::size_overflow: return "size overflow";
    case StatusCode::fast_memory_too_small: return "fast memory too small";
    case StatusCode::memory_limit: return "memory limit exceeded";
    case StatusCode::out_of_memory: return "out of memory";
    case StatusCode::unsupported: return "unsupported";
    case StatusCode::internal: return "internal error";
  }
  return "unknown status";
}

Status Status::error(StatusCode code, const char* format, ...) {
  Status status;
  status.code_ = code;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.message_, sizeof status.message_, format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace ioattn
