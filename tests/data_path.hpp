#pragma once

#include <string>

namespace ioattn_test {

// Where a file of tests/data lies, e.g. data_path("minilm/A.npy").
std::string data_path(const std::string& file);

}  // namespace ioattn_test
