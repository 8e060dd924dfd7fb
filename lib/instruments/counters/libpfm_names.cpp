#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>

#include "instruments/counters/event.hpp"

namespace ioattn::instruments {
namespace {

// Would always count 0.
bool is_of_the_kernel(const perf_event_attr& attributes) {
  return attributes.type == PERF_TYPE_TRACEPOINT ||
         (attributes.type == PERF_TYPE_SOFTWARE &&
          (attributes.config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
           attributes.config == PERF_COUNT_SW_CPU_MIGRATIONS));
}

}  // namespace

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
  // An event is opened by its type and code, of user-space code: what the name says beyond that
  // would be lost.
  if (attributes.config1 != 0 || attributes.config2 != 0 || attributes.precise_ip != 0) {
    return Status::error(StatusCode::invalid_argument,
                         "no event \"%.80s\": it takes more than a code (an offcore request, "
                         "latency or the like), which is not counted here",
                         name.c_str());
  }
  if (attributes.exclude_user || !attributes.exclude_kernel || attributes.exclude_host) {
    return Status::error(StatusCode::invalid_argument,
                         "no event \"%.80s\": user-space code alone is counted, without modifiers "
                         "such as :k",
                         name.c_str());
  }
  if (is_of_the_kernel(attributes)) {
    return Status::error(
        StatusCode::invalid_argument,
        "no event \"%.80s\": it happens in the kernel, and user-space code alone is counted",
        name.c_str());
  }
  *id = {attributes.type, attributes.config};
  return Status::ok();
}

}  // namespace ioattn::instruments
