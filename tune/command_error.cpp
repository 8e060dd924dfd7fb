#include "tune/command_error.hpp"

namespace ioattn::tune {

void require(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok: return;
    case StatusCode::out_of_memory:
    case StatusCode::internal: throw RunError(status.message());
    case StatusCode::fast_memory_too_small: throw DoesNotFit(status.message());
    case StatusCode::invalid_argument:
    case StatusCode::size_overflow:
    case StatusCode::memory_limit:
    case StatusCode::unsupported: throw UsageError(status.message());
  }
  throw RunError("unknown status");
}

}  // namespace ioattn::tune
