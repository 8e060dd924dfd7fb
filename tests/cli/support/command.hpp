#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// Runs the built command in a process of its own.
namespace ioattn_cli_test {

struct RunResult {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

// The command, for tests that start it themselves.
const char* ioattn_path();

// Wisdom is off unless the environment says another place, and variables of who runs the tests are
// not passed on.
// `setup` is a shell command that runs first, in the same shell: "ulimit -v 1000000".
RunResult run_ioattn(const Arguments& arguments, const Environment& environment = {},
                     const std::string& setup = "true");

// The same with stdout to a file.
RunResult run_ioattn_to(const std::string& out_path, const Arguments& arguments);

Arguments operator+(Arguments first, const Arguments& second);

// Exactly one line, which begins with "ioattn: ".
bool is_one_error_line(const std::string& text);

}  // namespace ioattn_cli_test
