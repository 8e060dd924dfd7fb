#pragma once

#include <string>

#include "cli/support/command.hpp"
#include "cli/support/temporary_directory.hpp"
#include "reference/cases.hpp"
#include "reference/oracle.hpp"

namespace ioattn_cli_test {

// A layer problem as files A1, A2, A3, X, Y, dO in a directory of its own. A1 = A2 = A3 is one
// file.
struct LayerCase {
  ioattn_reference::LayerInputs<double> inputs;
  bool self = false;
  TemporaryDirectory directory;

  std::string out() const { return directory / "out"; }
  // grad --A1 ... --out
  Arguments grad() const;
  std::string output(const std::string& name) const;  // the bytes of NAME.npy
};

struct CaseSizes {
  std::size_t n = 0, m = 0, d = 0, dv = 0;
};

// Random values that are exact in float, written as `dtype` "f32" or "f64".
void make_layer_case(const CaseSizes& sizes, ioattn_reference::Ties ties, const std::string& dtype,
                     std::uint64_t seed, LayerCase* layer);

void write_matrix(const std::string& path, const ioattn_reference::Matrix<double>& matrix,
                  const std::string& dtype);

// max|out - ref| / max|ref|; NaN if out has a NaN or another size.
double relative_error(const std::string& npy_bytes, const ioattn_reference::Matrix<double>& ref);

}  // namespace ioattn_cli_test
