#include "cli/support/layer_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/support/npy_bytes.hpp"

namespace ioattn_cli_test {

Arguments LayerCase::grad() const {
  Arguments arguments = {"grad", "--A1", directory / "A1.npy"};
  if (!self) {
    arguments = arguments + Arguments{"--A2", directory / "A2.npy", "--A3", directory / "A3.npy"};
  }
  return arguments + Arguments{"--X",  directory / "X.npy",  "--Y",   directory / "Y.npy",
                               "--dO", directory / "dO.npy", "--out", out()};
}

std::string LayerCase::output(const std::string& name) const {
  return read_file(out() + "/" + name + ".npy");
}

void write_matrix(const std::string& path, const ioattn_reference::Matrix<double>& matrix,
                  const std::string& dtype) {
  const std::vector<float> rounded(matrix.values.begin(), matrix.values.end());
  write_file(path, dtype == "f32" ? npy_matrix(matrix.rows, matrix.cols, rounded)
                                  : npy_matrix(matrix.rows, matrix.cols, matrix.values));
}

void make_layer_case(const CaseSizes& sizes, ioattn_reference::Ties ties, const std::string& dtype,
                     std::uint64_t seed, LayerCase* layer) {
  layer->inputs = ioattn_reference::make_case(ioattn_reference::Kind::normal,
                                              {sizes.n, sizes.m, sizes.d, sizes.dv, ties}, seed);
  layer->self = ties == ioattn_reference::Ties::all;
  const auto write = [&](const char* name, const ioattn_reference::Matrix<double>& matrix) {
    write_matrix(layer->directory / name, matrix, dtype);
  };
  write("A1.npy", layer->inputs.A1);
  write("A2.npy", layer->inputs.A2);
  write("A3.npy", layer->inputs.A3);
  write("X.npy", layer->inputs.X);
  write("Y.npy", layer->inputs.Y);
  write("dO.npy", layer->inputs.dO);
}

double relative_error(const std::string& npy_bytes, const ioattn_reference::Matrix<double>& ref) {
  const NpyArray out = parse_npy(npy_bytes);
  if (out.values.size() != ref.values.size()) return std::numeric_limits<double>::quiet_NaN();
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const double e = std::fabs(out.values[i] - ref.values[i]);
    if (!(e <= difference)) difference = e;
    if (std::isnan(difference)) return difference;
    scale = std::max(scale, std::fabs(ref.values[i]));
  }
  return difference == 0 ? 0 : difference / scale;
}

}  // namespace ioattn_cli_test
