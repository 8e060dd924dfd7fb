#pragma once

#include <string>
#include <vector>

#include "tune/files/npy.hpp"

namespace ioattn_cli_test {

// A file written by the code under test.
template <class T>
void written_npy(const std::string& path, const T* data,
                 const std::vector<ioattn::index_t>& shape) {
  ioattn::tune::OutputFiles files;
  ioattn::tune::write_npy<T>(path, data, shape, &files);
  files.keep();
}

}  // namespace ioattn_cli_test
