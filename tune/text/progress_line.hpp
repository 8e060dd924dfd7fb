#pragma once

#include <string>

namespace ioattn::tune {

// One line on stderr that says how far a command is, if that is a terminal; gone at the end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text) const;

 private:
  bool is_shown_;
};

}  // namespace ioattn::tune
