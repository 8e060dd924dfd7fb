#include "tune/text/progress_line.hpp"

#include <unistd.h>

#include <cstdio>

namespace ioattn::tune {

ProgressLine::ProgressLine() : is_shown_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() { show(""); }

void ProgressLine::show(const std::string& text) const {
  if (!is_shown_) return;
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());  // and nothing behind it
  std::fflush(stderr);
}

}  // namespace ioattn::tune
