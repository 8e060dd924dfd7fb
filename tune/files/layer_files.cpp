#include "tune/files/layer_files.hpp"

#include <CLI/CLI.hpp>
#include <cmath>

#include "api/array_types.hpp"
#include "api/checks/validate.hpp"
#include "api/planning/session.hpp"
#include "base/half.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"

namespace ioattn::tune {
namespace {

// What a file of a matrix, or of a batch, holds.
struct Extent {
  index_t rows = 0, cols = 0;
  std::optional<index_t> batch = {};

  bool operator==(const Extent&) const = default;
  std::string text() const {
    return (batch ? std::to_string(*batch) + " x " : "") + std::to_string(rows) + " x " +
           std::to_string(cols);
  }
};

template <class T>
Extent extent_of(const Matrix<T>& matrix) {
  return {matrix.rows, matrix.cols};
}

// The rows of all entries.
template <class T>
struct Stack {
  std::optional<index_t> batch;  // before `all`, whose reader sets it
  std::shared_ptr<const Matrix<T>> all;

  explicit Stack(const std::string& path)
      : all(std::make_shared<const Matrix<T>>(read_npy<T>(path, &batch))) {}
  Extent extent() const { return {all->rows / batch.value_or(1), all->cols, batch}; }
};

void check(const std::string& name, const std::string& path, const Extent& found,
           const Extent& asked) {
  if (found == asked) return;
  throw UsageError(path + ": " + name + " is " + found.text() + ", not " + asked.text() +
                   " as the other inputs ask");
}

template <class T>
void note_not_finite(const char* name, const Matrix<T>& matrix, std::vector<std::string>* names) {
  for (const T value : matrix.data) {
    if (!std::isfinite(to_compute(value))) {
      names->push_back(name);
      return;
    }
  }
}

}  // namespace

std::vector<CLI::Option*> add_layer_files(CLI::App* app, LayerPaths* paths, FilesOf of) {
  const bool all = of == FilesOf::batches;
  const auto file = [&](const char* name, std::string* path, const char* help) {
    return app->add_option(name, *path, help)->type_name("FILE");
  };
  return {file("--A1", &paths->a1,
               all ? "queries, n x d, or a batch of them, B x n x d" : "queries, n x d")
              ->required(all),
          file("--A2", &paths->a2, "keys, m x d (default: A1, the same memory)"),
          file("--A3", &paths->a3, "values, m x d (default: A1, the same memory)"),
          file("--X", &paths->x, "W_Q W_K^T, d x d")->required(all),
          file("--Y", &paths->y, "W_V, d x dv")->required(all),
          file("--dO", &paths->d_o,
               all ? "gradient of O, n x dv or B x n x dv; needed for dX and other gradients"
                   : "gradient of O, n x dv (default: arbitrary numbers)")};
}

template <class T>
LayerFiles<T> read_layer(const LayerPaths& paths) {
  const std::string a2_path = paths.a2.empty() ? paths.a1 : paths.a2;
  const std::string a3_path = paths.a3.empty() ? paths.a1 : paths.a3;
  const Stack<T> a1(paths.a1);
  const Stack<T> a2 = same_file(a2_path, paths.a1) ? a1 : Stack<T>(a2_path);
  const Stack<T> a3 = same_file(a3_path, paths.a1)  ? a1
                      : same_file(a3_path, a2_path) ? a2
                                                    : Stack<T>(a3_path);
  LayerFiles<T> files;
  files.a1 = a1.all;
  files.a2 = a2.all;
  files.a3 = a3.all;
  files.batch = a1.batch;
  files.x = read_npy<T>(paths.x);
  files.y = read_npy<T>(paths.y);
  Extent d_o;
  if (!paths.d_o.empty()) {
    const Stack<T> stack(paths.d_o);
    files.d_o = *stack.all;
    d_o = stack.extent();
  }
  if (!paths.w_q.empty()) files.w_q = read_npy<T>(paths.w_q);
  if (!paths.w_k.empty()) files.w_k = read_npy<T>(paths.w_k);

  const Extent queries = a1.extent();
  const index_t d = queries.cols, m = a2.extent().rows;
  check("A2", a2_path, a2.extent(), {m, d, files.batch});
  check(paths.a3.empty() ? "A3 (no --A3: A1)" : "A3", a3_path, a3.extent(), {m, d, files.batch});
  check("X", paths.x, extent_of(files.x), {d, d});
  check("Y", paths.y, extent_of(files.y), {d, files.y.cols});
  if (!paths.d_o.empty()) {
    check("dO", paths.d_o, d_o, {queries.rows, files.y.cols, files.batch});
  }
  const index_t dk = paths.w_q.empty() ? files.w_k.cols : files.w_q.cols;
  if (!paths.w_q.empty()) check("W_Q", paths.w_q, extent_of(files.w_q), {d, dk});
  if (!paths.w_k.empty()) check("W_K", paths.w_k, extent_of(files.w_k), {d, dk});
  require(api::validate_problem(api::problem_of(files.inputs())));

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
template LayerFiles<bf16> read_layer<bf16>(const LayerPaths&);
template LayerFiles<f16> read_layer<f16>(const LayerPaths&);
template LayerFiles<double> read_layer<double>(const LayerPaths&);

}  // namespace ioattn::tune
