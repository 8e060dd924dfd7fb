#include "data_path.hpp"

namespace ioattn_test {

std::string data_path(const std::string& file) { return IOATTN_TEST_DATA "/" + file; }

}  // namespace ioattn_test
