#pragma once

#include <string>
#include <utility>
#include <vector>

// Programs that this one runs for what they leave behind.
namespace ioattn::tune {

// A directory that is gone, with what is in it, when this is.
class TemporaryDirectory {
 public:
  TemporaryDirectory();  // throws RunError
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ChildEnd {
  int error = 0;         // errno if it did not start
  bool is_done = false;  // it ended with status 0
  std::string printed;   // to stdout and stderr
};

// Runs arguments[0], of PATH, in a directory, without input, with these variables beside, or in
// place of, those of the environment. Throws RunError if it is lost.
ChildEnd run_child(std::vector<std::string> arguments, const std::string& directory,
                   const std::vector<std::pair<std::string, std::string>>& variables = {});

}  // namespace ioattn::tune
