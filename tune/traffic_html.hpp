#pragma once

#include <string>

#include "tune/traffic_report.hpp"

namespace ioattn::tune {

// Throws RunError unless gnuplot, which draws the plot, can be run.
void require_gnuplot();

// One file that needs no other: the tables, and the words moved against M. Throws RunError.
void write_html(const TrafficReport& report, const std::string& path);

}  // namespace ioattn::tune
