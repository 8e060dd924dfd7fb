#include "tune/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tune/command_error.hpp"
#include "tune/text_file.hpp"

namespace ioattn::tune {
namespace {

// What a child does before it is gnuplot.
class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// A directory that is gone, with what is in it, when this is.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path_ = (std::filesystem::temp_directory_path() / "ioattn-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) throw RunError("cannot make a directory: " + path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// gnuplot repeats the line that it does not take before it says why.
std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last = "no message", line;
  while (std::getline(file, line))
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  return last;
}

}  // namespace

void run_gnuplot(const std::string& directory, const std::string& script) {
  const char* messages = "gnuplot.log";
  SpawnActions actions;
  ::posix_spawn_file_actions_addchdir_np(actions.get(), directory.c_str());
  ::posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), 1, messages, O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
  ::posix_spawn_file_actions_adddup2(actions.get(), 1, 2);
  std::string name = "gnuplot", defaults = "-d", file = script;  // -d: no settings of the user's
  char* const arguments[] = {name.data(), defaults.data(), file.data(), nullptr};
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, name.c_str(), actions.get(), nullptr, arguments, environ);
  const std::string log = directory + "/" + messages;
  std::error_code ignored;
  if (error != 0) {
    std::filesystem::remove(log, ignored);
    throw RunError(error == ENOENT
                       ? "gnuplot is not installed, which draws the figure: apt-get install "
                         "gnuplot-nox"
                       : std::string("gnuplot does not start: ") + std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw RunError("gnuplot was lost");
  }
  const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  const std::string message = failed ? last_line(log) : "";
  std::filesystem::remove(log, ignored);
  if (failed) throw RunError("gnuplot failed: " + message);
}

std::string drawn_svg(const std::string& script) {
  const TemporaryDirectory directory;
  write_text(directory.path() + "/plot.gp",
             "set terminal svg size 960,640 dynamic font 'sans-serif,12'\n"
             "set output 'plot.svg'\n" +
                 script);
  run_gnuplot(directory.path(), "plot.gp");
  return read_text(directory.path() + "/plot.svg");
}

}  // namespace ioattn::tune
