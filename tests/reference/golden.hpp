#pragma once

#include <map>
#include <string>
#include <vector>

#include "reference/oracle.hpp"

// Known answers: exact fractions where there are any, else 30 digits, found with 60-digit
// arithmetic and confirmed by finite differences in it.
namespace ioattn_reference {

struct GoldenCase {
  std::string name;
  LayerInputs<long double> inputs;
  // By name: S s L f h O Z(= f A3) q v p g(= dX) dA1 dA2 dA3 dY and, where W_Q and W_K are given,
  // dWQ dWK dQ dK dV. L and v are columns. A value the file leaves open (null) is absent.
  std::map<std::string, Matrix<long double>> outputs;
};

// Reads golden.json. std::runtime_error names the case and the field that cannot be read.
std::vector<GoldenCase> load_golden(const std::string& path);

}  // namespace ioattn_reference
