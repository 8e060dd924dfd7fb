#include "instruments/counters/event.hpp"

namespace ioattn::instruments {

bool built_with_libpfm() { return false; }

Status resolve_libpfm_name(const std::string& name, EventId*) {
  return Status::error(StatusCode::unsupported,
                       "no event \"%.80s\": names of libpfm4 need a build with it (Debian's "
                       "libpfm4-dev); a code can be given as r0151",
                       name.c_str());
}

}  // namespace ioattn::instruments
