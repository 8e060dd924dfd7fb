#pragma once

#include "ioattn/ioattn.h"

namespace ioattn_test {

inline ioattn_options default_options() {
  ioattn_options options = {};
  options.struct_size = sizeof options;
  return options;
}

inline ioattn_options with_schedule(const char* schedule) {
  ioattn_options options = default_options();
  options.schedule = schedule;
  return options;
}

inline ioattn_options with_rigor(ioattn_rigor rigor) {
  ioattn_options options = default_options();
  options.rigor = rigor;
  return options;
}

inline ioattn_options with_threads(int threads) {
  ioattn_options options = default_options();
  options.threads = threads;
  return options;
}

}  // namespace ioattn_test
