#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>

#include "instruments/counters/event.hpp"

namespace ioattn::instruments {

bool built_with_libpfm() { return true; }

Status resolve_libpfm_name(const std::string& name, EventId* id) {
  static const int initialized = pfm_initialize();
  perf_event_attr attributes = {};
  pfm_perf_encode_arg_t request = {};
  request.size = sizeof request;
  request.attr = &attributes;
  const int result =
      initialized != PFM_SUCCESS
          ? initialized
          : pfm_get_os_event_encoding(name.c_str(), PFM_PLM3, PFM_OS_PERF_EVENT, &request);
  if (result != PFM_SUCCESS) {
    return Status::error(StatusCode::invalid_argument, "no event \"%.80s\": libpfm4 says %s",
                         name.c_str(), pfm_strerror(result));
  }
  *id = {attributes.type, attributes.config};
  return Status::ok();
}

}  // namespace ioattn::instruments
