#pragma once

#include <string>
#include <vector>

#include "tune/npy.hpp"

namespace ioattn::tune {

// Arrays NAME.npy of a directory, which appear together or not at all.
class NpyOutputs {
 public:
  // Makes the directory. Throws UsageError if one of these names is that of an input, RunError if
  // one cannot be written.
  NpyOutputs(const std::string& directory, const std::vector<std::string>& names,
             const std::vector<std::string>& inputs);

  template <class T>
  void write(const std::string& name, const T* data, const std::vector<index_t>& shape) {
    write_npy(path_of(name), data, shape, &files_);
  }
  void keep() { files_.keep(); }

 private:
  std::string path_of(const std::string& name) const { return directory_ + "/" + name + ".npy"; }

  std::string directory_;
  OutputFiles files_;
};

}  // namespace ioattn::tune
