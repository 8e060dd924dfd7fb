#pragma once

#include <string>
#include <vector>

#include "tune/demo/demo_runs.hpp"

// What `ioattn demo` finds out on one case.
namespace ioattn::tune {

struct SweepPoint {
  index_t M = 0;
  std::vector<DemoRow> rows;
};

// Everything that was found out; tables and the JSON object are made from it.
struct Demo {
  LayerShape shape;
  std::vector<plan::LayerRequest> levels;
  std::vector<DemoRow> backward, forward;  // at the deciding level, f32 then f64
  std::vector<SweepPoint> sweep;           // backward
};

struct Verdict {
  int runs = 0, wrong = 0;
  double worst_f32 = 0, worst_f64 = 0;  // largest errors; NaN if any is
};

// Of a directory with A, X, Y, dO and golden_dX (float64), all .npy.
Demo run_demo_cases(const std::string& directory);
Verdict judge(const Demo& demo);
// One line.
std::string learned(const Demo& demo, const Verdict& verdict);

// The row that moves least of those that fit; literal forms do not count. Null: there is none.
const DemoRow* least_words(const std::vector<DemoRow>& rows, DType dtype, bool paper_only);

}  // namespace ioattn::tune
