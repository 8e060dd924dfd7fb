#pragma once

#include <string>

#include "tune/processes/gnuplot.hpp"  // asked for before anything is measured
#include "tune/traffic/traffic_report.hpp"

namespace ioattn::tune {

// What was measured elsewhere than in the report's lines, at one M.
struct Marker {
  std::string title;
  double M = 0, words = 0;
};

// One file that needs no other: the words moved against M, and the text of the report. Throws
// RunError.
void write_html(const TrafficReport& report, const std::vector<Marker>& markers,
                const std::string& text, const std::string& path);

}  // namespace ioattn::tune
