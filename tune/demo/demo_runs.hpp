#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tune/files/layer_files.hpp"
#include "tune/passes/measured_pass.hpp"

// Every schedule on one input, at one M, held against a float64 reference.
namespace ioattn::tune {

// Allowed max|out - ref| / max|ref|.
constexpr double error_limit(DType dtype) { return dtype == DType::f32 ? 5e-6 : 1e-13; }

struct DemoRow {
  DType dtype = DType::f32;
  plan::Candidate candidate;
  std::optional<PassReport> report;  // empty: does not fit M
  double error = 0;                  // max|out - ref| / max|ref|
  bool planned = false;              // what the planner chooses

  bool is_wrong() const { return report && !(error <= error_limit(dtype)); }
  bool literal() const { return candidate.blocks.literal; }
  std::string label() const;
};

// One input in one dtype, with float64 references for O and dX.
template <class T>
struct DemoCase {
  LayerFiles<T> files;
  const Matrix<double>* golden_dx = nullptr;
  const std::vector<double>* reference_o = nullptr;  // null: O is not compared
};

// One row per schedule and form of a pass. M = 0: that of L2. `all`: naive and the literal forms
// too, which work in single words where M is small and then take long.
template <class T>
std::vector<DemoRow> run_demo_rows(const DemoCase<T>& demo, Pass pass, index_t M, bool all,
                                   RunMode how);

// O of row_stream, the reference for the others.
std::vector<double> reference_output(const LayerFiles<double>& files, int threads);

}  // namespace ioattn::tune
