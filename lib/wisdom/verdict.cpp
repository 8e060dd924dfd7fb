#include "wisdom/verdict.hpp"

namespace ioattn::wisdom {

const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::none: return "ok";
    case Reason::off: return "off";
    case Reason::not_found: return "not_found";
    case Reason::unreadable: return "unreadable";
    case Reason::unwritable: return "unwritable";
    case Reason::busy: return "busy";
    case Reason::too_large: return "too_large";
    case Reason::too_deep: return "too_deep";
    case Reason::syntax: return "syntax";
    case Reason::schema: return "schema";
    case Reason::record: return "record";
    case Reason::library: return "other_library";
    case Reason::kernels: return "other_kernels";
    case Reason::isa: return "other_isa";
    case Reason::cpu: return "other_cpu";
    case Reason::caches: return "other_caches";
    case Reason::absent: return "absent";
    case Reason::plan: return "bad_plan";
    case Reason::kernel: return "other_kernel";
    case Reason::blocks: return "bad_blocks";
    case Reason::rates: return "bad_rates";
  }
  return "unknown";
}

}  // namespace ioattn::wisdom
