#include "tune/files/npy_outputs.hpp"

#include "tune/command_error.hpp"

namespace ioattn::tune {

std::string npy_path(const std::string& directory, const std::string& name) {
  return directory + "/" + name + ".npy";
}

std::vector<std::string> npy_paths(const std::string& directory,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(npy_path(directory, name));
  return paths;
}

std::string written_text(const std::string& directory, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "wrote " : ", ") + name + ".npy";
  return text + " to " + directory + "\n";
}

NpyOutputs::NpyOutputs(const std::string& directory, const std::vector<std::string>& names,
                       const std::vector<std::string>& inputs)
    : directory_(directory) {
  for (const std::string& name : names) {
    for (const std::string& input : inputs) {
      if (!same_file(path_of(name), input)) continue;
      throw UsageError(input + " is an input, which the output " + name +
                       " would overwrite: --out has to be another directory");
    }
  }
  make_directory(directory);
  for (const std::string& name : names) require_writable(path_of(name));
}

}  // namespace ioattn::tune
