#include <fmt/format.h>

#include "tune/figure/figure_files.hpp"

namespace ioattn::tune {

std::string curves_csv(const Figure& figure) {
  std::string text = "M,M_over_d2";
  for (const Curve& curve : figure.curves) text += fmt::format(",{}", curve.key);
  text += ",ours_schedule\n";
  const double square = double(figure.shape.d) * double(figure.shape.d);
  for (std::size_t i = 0; i < figure.M.size(); ++i) {
    text += fmt::format("{},{}", figure.M[i], double(figure.M[i]) / square);
    for (const Curve& curve : figure.curves)
      text += curve.words[i] ? fmt::format(",{}", *curve.words[i]) : ",";
    text += fmt::format(",{}\n", figure.best[i]);
  }
  return text;
}

std::string points_csv(const Figure& figure) {
  std::string text = "series,M,schedule,words\n";
  for (const PointSeries& series : figure.series)
    for (const Point& point : series.points)
      text +=
          fmt::format("{},{},{},{}\n", series.key, point.M, name_of(point.schedule), point.words);
  return text;
}

std::string table_csv(const std::vector<TableCell>& table) {
  std::string text = "row,cache,M,formula,formula_words,what,words,counted,ratio,assumption\n";
  for (const TableCell& cell : table) {
    text += fmt::format("\"{}\",{},{},{},{},{},{},{},{},\"{}\"\n", cell.row, cell.cache, cell.M,
                        cell.formula, cell.formula_words, cell.what, cell.words,
                        cell.counted ? std::to_string(*cell.counted) : "", cell.ratio(),
                        cell.assumption);
  }
  return text;
}

}  // namespace ioattn::tune
