#include "tune/processes/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tune/command_error.hpp"
#include "tune/files/text_file.hpp"

namespace ioattn::tune {
namespace {

// What a child does before it is the program.
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

// With a null at the end, as exec takes them.
std::vector<char*> pointers_to(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts->size() + 1);
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  all.reserve(variables.size());
  for (const auto& [name, value] : variables) all.emplace_back(name).append("=").append(value);
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const bool is_replaced =
        std::any_of(variables.begin(), variables.end(),
                    [&](const auto& variable) { return text.rfind(variable.first + "=", 0) == 0; });
    if (!is_replaced) all.push_back(text);
  }
  return all;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / "ioattn-XXXXXX").string();
  if (error || ::mkdtemp(path_.data()) == nullptr) {
    throw RunError("no directory for temporary files can be made: TMPDIR names where");
  }
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ChildEnd run_child(std::vector<std::string> arguments, const std::string& directory,
                   const std::vector<std::pair<std::string, std::string>>& variables) {
  const TemporaryDirectory own;  // `directory` may have a file of any name
  const std::string name = arguments.front(), messages = own.path() + "/messages";
  SpawnActions actions;
  ::posix_spawn_file_actions_addchdir_np(actions.get(), directory.c_str());
  ::posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), 1, messages.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_adddup2(actions.get(), 1, 2);
  std::vector<std::string> environment = environment_with(variables);
  pid_t child = 0;
  ChildEnd end;
  end.error = ::posix_spawnp(&child, name.c_str(), actions.get(), nullptr,
                             pointers_to(&arguments).data(), pointers_to(&environment).data());
  if (end.error == 0) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
      if (errno != EINTR) throw RunError(name + " was lost");
    }
    end.is_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    end.printed = read_text(messages);
  }
  return end;
}

}  // namespace ioattn::tune
