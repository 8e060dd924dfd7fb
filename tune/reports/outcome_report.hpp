#pragma once

#include <string>
#include <vector>

#include "tune/passes/pass_report.hpp"

namespace ioattn::tune {

// What `grad` and `sdpa` did.
struct Outcome {
  std::string problem;
  DType dtype = DType::f32;
  int threads = 1;
  std::vector<PassReport> passes;
};
// With the arrays of these names that were written to a directory.
void print_outcome(const Outcome& outcome, const std::string& directory,
                   const std::vector<std::string>& names, bool json);

}  // namespace ioattn::tune
