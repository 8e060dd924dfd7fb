#pragma once

#include <string>
#include <vector>

#include "tune/figure/figure.hpp"
#include "tune/figure/figure_table.hpp"

// The figure and the table as text. Each is a whole file.
namespace ioattn::tune {

// M, M / d^2, one column a curve (empty where nothing fits), and the schedule of "ours".
std::string curves_csv(const Figure& figure);
std::string points_csv(const Figure& figure);  // series, M, schedule, words
std::string table_csv(const std::vector<TableCell>& table);

// Draws io.svg of io.csv and, with points, points.csv.
std::string gnuplot_script(const Figure& figure);
// gnuplot's SVG with a title and a description for those who do not see it.
std::string accessible_svg(const std::string& svg, const Figure& figure);
// One page: the SVG, its numbers at the marks, and Table 1.
std::string figure_html(const std::string& svg, const Figure& figure,
                        const std::vector<TableCell>& table);

}  // namespace ioattn::tune
