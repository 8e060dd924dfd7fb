#include <fmt/format.h>

#include <algorithm>

#include "tune/figure/figure_files.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

constexpr const char* page_head = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/>
<title>I/O of attention, n = m = {0}, d = {1}</title>
<style>
body {{ font: 16px/1.5 sans-serif; color: #111; background: #fff; max-width: 64em; margin: 2em auto; padding: 0 1em }}
figure {{ margin: 0 }}
svg {{ width: 100%; height: auto }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: 14px }}
caption {{ text-align: left; padding: 0.5em 0 }}
th, td {{ border: 1px solid #999; padding: 0.2em 0.5em; text-align: right }}
th[scope=row], td.text {{ text-align: left }}
</style>
</head>
<body>
<h1>I/O of attention, n = m = {0}, d = {1}</h1>
)";

// The part of a file of gnuplot's that can stand in a page.
std::string element_of(const std::string& svg) {
  const std::size_t root = svg.find("<svg");
  return root == std::string::npos ? svg : svg.substr(root);
}

std::string words_text(const std::optional<double>& words) { return words ? grouped(*words) : "–"; }

// The curves at the marks: what the figure shows, as numbers.
std::string numbers_at_marks(const Figure& figure) {
  std::string text =
      "<div class=\"wide\"><table>\n<caption>The figure as numbers: words read and written where "
      "regimes change.</caption>\n<thead><tr><th scope=\"col\">M</th>";
  for (const Curve& curve : figure.curves)
    text += fmt::format("<th scope=\"col\">{}</th>", curve.label);
  text += "<th scope=\"col\">best schedule</th></tr></thead>\n<tbody>\n";
  for (const Mark& mark : figure.marks) {
    const auto at = std::find(figure.M.begin(), figure.M.end(), static_cast<index_t>(mark.M));
    if (at == figure.M.end()) continue;
    const std::size_t i = static_cast<std::size_t>(at - figure.M.begin());
    text += fmt::format("<tr><th scope=\"row\">{} = {}</th>", mark.label, grouped(*at));
    for (const Curve& curve : figure.curves)
      text += fmt::format("<td>{}</td>", words_text(curve.words[i]));
    text += fmt::format("<td class=\"text\">{}</td></tr>\n", figure.best[i]);
  }
  return text + "</tbody>\n</table></div>\n";
}

std::string points_of(const Figure& figure) {
  if (figure.series.empty()) return "";
  std::string text =
      "<div class=\"wide\"><table>\n<caption>Points, in the blocks that this machine runs "
      "with.</caption>\n<thead><tr><th scope=\"col\">series</th><th scope=\"col\">M</th>"
      "<th scope=\"col\">schedule</th><th scope=\"col\">words</th></tr></thead>\n<tbody>\n";
  for (const PointSeries& series : figure.series)
    for (const Point& point : series.points)
      text += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"text\">{}</td><td>{}</td></tr>\n",
          series.label, grouped(point.M), name_of(point.schedule), grouped(point.words));
  return text + "</tbody>\n</table></div>\n";
}

std::string table_one(const std::vector<TableCell>& table) {
  std::string text =
      "<div class=\"wide\"><table>\n<caption>Table 1 of the paper with numbers. Formulas are taken "
      "with the constant 1; a ratio is words (counted, where they were) over the formula. Bounds "
      "are proved with their constants; the sparse formulas are taken for the dense instance."
      "</caption>\n<thead><tr>";
  for (const char* head : {"", "cache", "M", "formula", "formula, words", "what",
                           "words by closed formula", "counted", "ratio"})
    text += fmt::format("<th scope=\"col\">{}</th>", head);
  text += "</tr></thead>\n<tbody>\n";
  for (const TableCell& cell : table) {
    text += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td>"
        "<td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td>"
        "<td>{:.3g}</td></tr>\n",
        cell.row, cell.cache, grouped(cell.M), cell.formula, grouped(cell.formula_words), cell.what,
        grouped(cell.words), cell.counted ? grouped(*cell.counted) : "–", cell.ratio());
  }
  return text + "</tbody>\n</table></div>\n";
}

}  // namespace

std::string figure_html(const std::string& svg, const Figure& figure,
                        const std::vector<TableCell>& table) {
  std::string text = fmt::format(page_head, figure.shape.n, figure.shape.d);
  text +=
      "<p>Words between a fast memory of M words and a slow one, for attention of the layer "
      "problem (<a href=\"https://arxiv.org/abs/2410.09397\">arXiv 2410.09397</a>). Schedules "
      "are priced exactly, every one with its best blocks.</p>\n<h2>Figure 1</h2>\n<figure>\n";
  text += element_of(svg);
  text += "<figcaption>Dotted vertical lines: ";
  for (const Mark& mark : figure.marks)
    text +=
        fmt::format("{}{} ({})", &mark == figure.marks.data() ? "" : "; ", mark.label, mark.what);
  text += ".</figcaption>\n</figure>\n" + numbers_at_marks(figure) + points_of(figure);
  return text + "<h2>Table 1</h2>\n" + table_one(table) + "</body>\n</html>\n";
}

}  // namespace ioattn::tune
