#pragma once

#include <cstdint>

namespace ioattn {

// The same numbers as ioattn_status in the C header; a test compares the two.
enum class StatusCode : std::int32_t {
  ok = 0,
  invalid_argument = 1,       // a pointer, size, stride or option is wrong
  size_overflow = 2,          // a product of the sizes does not fit in 64 bits
  fast_memory_too_small = 3,  // the schedule needs more words than M
  memory_limit = 4,           // the plan needs more scratch memory than the caller allows
  out_of_memory = 5,
  unsupported = 6,  // known, but not built or not on this CPU
  internal = 7,
};

const char* name_of(StatusCode code);

// A result without a value. The message is stored inside, so that reporting a failed allocation
// never allocates.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status ok() { return {}; }
#if defined(__GNUC__)
  __attribute__((format(printf, 2, 3)))
#endif
  static Status
  error(StatusCode code, const char* format, ...);

  bool is_ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const char* message() const { return message_; }

  static constexpr int message_size = 380;  // two reasons of a planner and their numbers

 private:
  StatusCode code_ = StatusCode::ok;
  char message_[message_size] = {};
};

}  // namespace ioattn
