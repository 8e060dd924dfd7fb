#pragma once

#include <string>
#include <vector>

#include "tune/files/npy.hpp"

namespace ioattn::tune {

// Where arrays of these names are in a directory; and which were written, for a report: it may have
// others from before.
std::string npy_path(const std::string& directory, const std::string& name);
std::vector<std::string> npy_paths(const std::string& directory,
                                   const std::vector<std::string>& names);
std::string written_text(const std::string& directory, const std::vector<std::string>& names);

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
  std::string path_of(const std::string& name) const { return npy_path(directory_, name); }

  std::string directory_;
  OutputFiles files_;
};

}  // namespace ioattn::tune
