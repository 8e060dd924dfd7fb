#include "tune/layer_files.hpp"

#include <cmath>
#include <filesystem>

#include "api/validate.hpp"
#include "tune/command_error.hpp"
#include "tune/npy.hpp"

namespace ioattn::tune {
namespace {

bool same_file(const std::string& p, const std::string& q) {
  std::error_code error;
  return p == q || std::filesystem::equivalent(p, q, error);
}

template <class T>
void check(const char* name, const std::string& path, const Matrix<T>& matrix, index_t rows,
           index_t cols) {
  if (matrix.rows == rows && matrix.cols == cols) return;
  const auto text = [](index_t r, index_t c) {
    return std::to_string(r) + " x " + std::to_string(c);
  };
  throw UsageError(path + ": " + name + " is " + text(matrix.rows, matrix.cols) + ", not " +
                   text(rows, cols) + " as the other inputs ask");
}

template <class T>
void note_not_finite(const char* name, const Matrix<T>& matrix, std::vector<std::string>* names) {
  for (const T value : matrix.data) {
    if (!std::isfinite(value)) {
      names->push_back(name);
      return;
    }
  }
}

}  // namespace

template <class T>
LayerFiles<T> read_layer(const LayerPaths& paths) {
  const std::string a2_path = paths.a2.empty() ? paths.a1 : paths.a2;
  const std::string a3_path = paths.a3.empty() ? paths.a1 : paths.a3;
  const auto read = [](const std::string& path) {
    return std::make_shared<const Matrix<T>>(read_npy<T>(path));
  };
  LayerFiles<T> files;
  files.a1 = read(paths.a1);
  files.a2 = same_file(a2_path, paths.a1) ? files.a1 : read(a2_path);
  files.a3 = same_file(a3_path, paths.a1)  ? files.a1
             : same_file(a3_path, a2_path) ? files.a2
                                           : read(a3_path);
  files.x = read_npy<T>(paths.x);
  files.y = read_npy<T>(paths.y);
  if (!paths.d_o.empty()) files.d_o = read_npy<T>(paths.d_o);
  if (!paths.w_q.empty()) files.w_q = read_npy<T>(paths.w_q);
  if (!paths.w_k.empty()) files.w_k = read_npy<T>(paths.w_k);

  const index_t d = files.a1->cols;
  check("A2", a2_path, *files.a2, files.a2->rows, d);
  check("A3", a3_path, *files.a3, files.a2->rows, d);
  check("X", paths.x, files.x, d, d);
  check("Y", paths.y, files.y, d, files.y.cols);
  if (!paths.d_o.empty()) check("dO", paths.d_o, files.d_o, files.a1->rows, files.y.cols);
  const index_t dk = paths.w_q.empty() ? files.w_k.cols : files.w_q.cols;
  if (!paths.w_q.empty()) check("W_Q", paths.w_q, files.w_q, d, dk);
  if (!paths.w_k.empty()) check("W_K", paths.w_k, files.w_k, d, dk);
  require(api::validate_shape(shape_of(files.inputs())));

  note_not_finite("A1", *files.a1, &files.not_finite);
  if (files.a2 != files.a1) note_not_finite("A2", *files.a2, &files.not_finite);
  if (files.a3 != files.a1 && files.a3 != files.a2) {
    note_not_finite("A3", *files.a3, &files.not_finite);
  }
  note_not_finite("X", files.x, &files.not_finite);
  note_not_finite("Y", files.y, &files.not_finite);
  note_not_finite("dO", files.d_o, &files.not_finite);
  note_not_finite("W_Q", files.w_q, &files.not_finite);
  note_not_finite("W_K", files.w_k, &files.not_finite);
  return files;
}

template LayerFiles<float> read_layer<float>(const LayerPaths&);
template LayerFiles<double> read_layer<double>(const LayerPaths&);

}  // namespace ioattn::tune
