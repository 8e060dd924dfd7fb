// Calls get as many threads as they ask for, however few CPUs there are and however little the work
// is. The linker passes the library's questions through here.

#include <cstdint>

#include "api/run/sdpa.hpp"

extern "C" {  // NOLINTBEGIN(bugprone-reserved-identifier): the linker and the sanitizer chose them
int __real__ZN6ioattn3api15granted_threadsEi(int requested);
int __real__ZN6ioattn3api11threads_forElRKNS0_10RunOptionsE(std::int64_t work,
                                                            const ioattn::api::RunOptions& options);

int __wrap__ZN6ioattn3api15granted_threadsEi(int requested) {
  return requested > 0 ? requested : __real__ZN6ioattn3api15granted_threadsEi(requested);
}
int __wrap__ZN6ioattn3api11threads_forElRKNS0_10RunOptionsE(
    std::int64_t work, const ioattn::api::RunOptions& options) {
  return options.threads > 0
             ? options.threads
             : __real__ZN6ioattn3api11threads_forElRKNS0_10RunOptionsE(work, options);
}

// libomp forgets memory of its own when the number of threads grows.
const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() { return "leak:libomp"; }
}  // NOLINTEND(bugprone-reserved-identifier)
