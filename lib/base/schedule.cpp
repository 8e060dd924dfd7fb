#include "base/schedule.hpp"

#include <cstring>

namespace ioattn {
namespace {
constexpr const char* names[schedule_count] = {"naive", "paper_small", "paper_large", "row_stream"};
}  // namespace

const char* name_of(Schedule schedule) { return names[static_cast<int>(schedule)]; }

bool parse_schedule(const char* name, Schedule* schedule) {
  for (int i = 0; i < schedule_count; ++i) {
    if (std::strcmp(name, names[i]) == 0) {
      *schedule = static_cast<Schedule>(i);
      return true;
    }
  }
  return false;
}

bool exists(Schedule schedule, Pass pass) {
  return pass == Pass::backward || schedule != Schedule::naive;
}

}  // namespace ioattn
