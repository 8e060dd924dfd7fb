#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/problem.hpp"
#include "base/schedule.hpp"

// Figure 1 of the paper with every constant: words of the backward pass against M, at n = m and
// d = dv.
namespace ioattn::tune {

constexpr index_t figure_least_d = 8;  // below, the marks of the small cache are no integers apart

struct Curve {
  const char* key;    // of the CSV
  const char* label;  // of the figure
  // One value for each M; empty where the schedule does not fit.
  std::vector<std::optional<double>> words;
};

struct Mark {
  double M;
  const char* label;
  const char* what;
};

// Something counted, or otherwise measured, at one M.
struct Point {
  index_t M = 0;
  Schedule schedule = Schedule::row_stream;
  index_t words = 0;
};
struct PointSeries {
  std::string key, label;
  std::vector<Point> points;
};

struct Figure {
  LayerShape shape;
  std::vector<index_t> M;
  std::vector<Curve> curves;
  std::vector<const char*> best;  // schedule that the curve "ours" is of
  std::vector<Mark> marks;
  std::vector<PointSeries> series;
};

// Throws UsageError unless n >= d >= figure_least_d and the sizes are within the formulas' range.
LayerShape figure_shape(index_t n, index_t d);
Figure make_figure(const LayerShape& shape);

}  // namespace ioattn::tune
