#pragma once

#include <cstdint>
#include <string>

namespace ioattn::wisdom {

// Why wisdom is not used.
enum class Reason : std::uint8_t {
  none,        // it is
  off,         // IOATTN_WISDOM=off, or there is no place for a file
  not_found,   // no such file
  unreadable,  // no file, or not for this user
  unwritable,  // the directory or the disk
  busy,        // another process holds the lock
  too_large,   // above the cap
  too_deep,    // nested beyond what any version writes
  syntax,      // not JSON
  schema,      // JSON, but not wisdom, or of a later schema
  record,      // a field of a record is missing or wrong
  library,     // of another version of the library ...
  kernels,     // ... or other kernels,
  isa,         // another instruction set,
  cpu,         // another CPU,
  caches,      // or other caches
  absent,      // no record of such problems
  plan,        // the plan does not parse
  kernel,      // the plan is for another kernel than calls use
  blocks,      // blocks are not valid, or do not fit the cache
  rates,       // no CPU has such rates
};
const char* name_of(Reason reason);

struct Verdict {
  Reason reason = Reason::none;
  std::string message;  // one sentence; "" if there is nothing to say

  bool is_ok() const { return reason == Reason::none; }
};

}  // namespace ioattn::wisdom
