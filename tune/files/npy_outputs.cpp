#include "tune/files/npy_outputs.hpp"

#include "tune/command_error.hpp"

namespace ioattn::tune {

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
