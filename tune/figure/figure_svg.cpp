#include <fmt/format.h>

#include "tune/command_error.hpp"
#include "tune/figure/figure_files.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

// Told apart by dashes and widths, so that no colour is needed: in the order of the curves.
constexpr const char* styles[] = {
    "lw 1 dt 3 lc rgb '#666666'",        // paper_formula
    "lw 1.5 dt 2 lc rgb '#8a3d00'",      // paper_small
    "lw 1.5 dt (2,3) lc rgb '#b07a50'",  // paper_large_nominal
    "lw 1.5 dt 4 lc rgb '#8a3d00'",      // paper_large
    "lw 3 dt 1 lc rgb '#003f7f'",        // ours
    "lw 1.5 dt 5 lc rgb '#000000'",      // bound_f
    "lw 1.5 dt 1 lc rgb '#000000'",      // bound_p
    "lw 1 dt (8,4) lc rgb '#444444'",    // compulsory
};

// In gnuplot's single quotes.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

void replace_element(const std::string& name, const std::string& content, std::string* svg) {
  const std::string open = "<" + name + ">", close = "</" + name + ">";
  const std::size_t begin = svg->find(open), end = svg->find(close);
  if (begin == std::string::npos || end == std::string::npos)
    throw RunError("gnuplot wrote no " + open + " into its SVG");
  svg->replace(begin, end + close.size() - begin, content);
}

}  // namespace

std::string gnuplot_script(const Figure& figure) {
  std::string text =
      "# Draws io.svg: gnuplot io.gp\n"
      "set terminal svg size 1000,720 dynamic font 'sans-serif,13' background '#ffffff'\n"
      "set output 'io.svg'\nset encoding utf8\nset datafile separator ','\n"
      "set datafile missing ''\nset logscale xy\nset format x '10^{%L}'\nset format y '10^{%L}'\n"
      "set xlabel 'M, words of fast memory' offset 0,0.5\nset ylabel 'words read and written'\nset "
      "tmargin 6\n"
      "set key outside below center vertical maxrows 6 samplen 4 spacing 1.2 Left reverse width "
      "-6\n"
      "set grid ytics lc rgb '#dddddd' dt 1\nset border 3\nset tics nomirror\n";
  text += fmt::format("set title 'I/O of the backward pass, n = m = {}, d = {}' offset 0,1.6\n",
                      figure.shape.n, figure.shape.d);
  const double low = double(figure.M.front()), high = double(figure.M.back());
  text += fmt::format("set xrange [{}:{}]\n", low, high);
  int height = 0;  // of labels above the frame, in turn, as marks may be close
  for (const Mark& mark : figure.marks) {
    if (mark.M < low || mark.M > high) continue;
    text += fmt::format(
        "set arrow from {0},graph 0 to {0},graph 1 nohead back lw 0.7 dt 3 lc rgb '#888888'\n"
        "set label '{1}' at {0},graph {2:.2f} center font ',12'\n",
        mark.M, mark.label, 1.02 + 0.05 * (height++ % 2));
  }
  text += "plot \\\n";
  for (std::size_t i = 0; i < figure.curves.size(); ++i) {
    text += fmt::format("  'io.csv' every ::1 using 1:{} with lines {} title {} noenhanced{}\n",
                        i + 3, styles[i], quoted(figure.curves[i].label),
                        i + 1 < figure.curves.size() || !figure.series.empty() ? ", \\" : "");
  }
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const PointSeries& series = figure.series[i];
    text += fmt::format(
        "  'points.csv' every ::1 using (strcol(1) eq '{}' ? $2 : NaN):4 with points pt {} ps 0.9 "
        "lc rgb '#000000' title {} noenhanced{}\n",
        series.key, 4 + 2 * i, quoted(series.label), i + 1 < figure.series.size() ? ", \\" : "");
  }
  return text;
}

std::string accessible_svg(const std::string& svg, const Figure& figure) {
  std::string text = svg;
  replace_element(
      "title",
      fmt::format("<title id=\"io-title\">I/O of the backward pass of attention against "
                  "M, n = m = {}, d = {}</title>",
                  figure.shape.n, figure.shape.d),
      &text);
  std::string description = "Both axes are logarithmic. From M = " + grouped(figure.M.front()) +
                            " to " + grouped(figure.M.back()) + " words of fast memory:";
  for (const Curve& curve : figure.curves) {
    const auto value = [](const std::optional<double>& words) {
      return words ? grouped(*words) : std::string("nothing that fits");
    };
    description += fmt::format(" {}: from {} to {} words.", curve.label, value(curve.words.front()),
                               value(curve.words.back()));
  }
  replace_element("desc", "<desc id=\"io-description\">" + description + "</desc>", &text);
  const std::size_t root = text.find("<svg");
  if (root == std::string::npos) throw RunError("gnuplot wrote no SVG");
  text.insert(root + 4, " role=\"img\" aria-labelledby=\"io-title io-description\"");
  return text;
}

}  // namespace ioattn::tune
