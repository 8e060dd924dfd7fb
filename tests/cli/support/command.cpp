#include "cli/support/command.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/support/temporary_directory.hpp"

namespace ioattn_cli_test {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// What the tests do not set must not come from who runs them, but how idle threads wait and what
// ThreadSanitizer is told.
std::vector<std::string> foreign_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable, name = text.substr(0, text.find('='));
    if (name == "OMP_WAIT_POLICY" || name.starts_with("OMP_TOOL")) continue;
    for (const char* prefix : {"IOATTN_", "OMP_", "GOMP_", "KMP_", "HWLOC_", "XDG_CACHE_HOME"})
      if (name.starts_with(prefix)) names.emplace_back(name);
  }
  return names;
}

RunResult run(const std::string& out_path, const std::string& err_path, const Arguments& arguments,
              const Environment& environment, const std::string& setup) {
  std::string line = setup + " && env";
  for (const std::string& name : foreign_variables()) line += " -u " + quoted(name);
  line += " IOATTN_WISDOM=off";
  for (const auto& [name, value] : environment) line += " " + name + "=" + quoted(value);
  line += " " + quoted(ioattn_path());
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += " >" + quoted(out_path) + " 2>" + quoted(err_path) + " </dev/null";
  const int status = std::system(line.c_str());
  RunResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace

const char* ioattn_path() { return IOATTN_COMMAND; }

RunResult run_ioattn(const Arguments& arguments, const Environment& environment,
                     const std::string& setup) {
  const TemporaryDirectory directory;
  RunResult result = run(directory / "out", directory / "err", arguments, environment, setup);
  result.out = read_file(directory / "out");
  result.err = read_file(directory / "err");
  return result;
}

RunResult run_ioattn_to(const std::string& out_path, const Arguments& arguments) {
  const TemporaryDirectory directory;
  RunResult result = run(out_path, directory / "err", arguments, {}, "true");
  result.err = read_file(directory / "err");
  return result;
}

Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bool is_one_error_line(const std::string& text) {
  return text.rfind("ioattn: ", 0) == 0 && text.size() > 9 && text.back() == '\n' &&
         std::count(text.begin(), text.end(), '\n') == 1;
}

}  // namespace ioattn_cli_test
