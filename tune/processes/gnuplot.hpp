#pragma once

#include <string>

namespace ioattn::tune {

// Runs gnuplot on a script in a directory, which is where the script's files are. Throws RunError
// if gnuplot is not installed or fails, with what it says.
void run_gnuplot(const std::string& directory, const std::string& script);

// The SVG that a script draws to its standard size, in a directory that is gone afterwards. The
// script says neither terminal nor output. Throws as run_gnuplot does.
std::string drawn_svg(const std::string& script);

// Throws RunError unless gnuplot can be run.
void require_gnuplot();

}  // namespace ioattn::tune
