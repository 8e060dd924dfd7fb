#pragma once

#include <string>
#include <vector>

#include "tune/files/text_file.hpp"

namespace ioattn::tune {

// The file `svg` that gnuplot makes of the script and other files, by name, among these; in a
// directory of their own, which is gone afterwards. Throws RunError if gnuplot is not installed or
// fails, with what it says.
std::string drawn_svg(const std::vector<NamedText>& files, const std::string& script,
                      const std::string& svg);

// The SVG that a script draws to its standard size. The script says neither terminal nor output.
std::string drawn_svg(const std::string& script);

// Throws RunError unless gnuplot can be run.
void require_gnuplot();

}  // namespace ioattn::tune
