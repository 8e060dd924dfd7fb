#pragma once

#include <cstdlib>

namespace ioattn_cli_test {

// Whether it is there and runs, asked of it and not of the command that is tested.
inline bool has_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

}  // namespace ioattn_cli_test

#define IOATTN_SKIP_WITHOUT_GNUPLOT() \
  if (!ioattn_cli_test::has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed"
