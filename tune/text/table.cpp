#include "tune/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ioattn::tune {

Table::Table(std::vector<std::string> header, std::size_t left_columns)
    : left_columns_(left_columns) {
  rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string Table::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  for (const auto& row : rows_) {
    const std::size_t fixed = row.size() < columns ? row.size() - 1 : columns;
    for (std::size_t i = 0; i < fixed; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool runs_on = i + 1 == row.size() && row.size() < columns;
      line += "  ";
      if (runs_on) {
        line += row[i];
      } else if (i < left_columns_) {
        line += fmt::format("{:<{}}", row[i], widths[i]);
      } else {
        line += fmt::format("{:>{}}", row[i], widths[i]);
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string grouped(index_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string grouped(double value) {
  if (!(std::fabs(value) < 9e18)) return fmt::format("{:.4g}", value);
  return grouped(static_cast<index_t>(std::floor(value)));
}

std::string ratio_text(double value) {
  if (!std::isfinite(value)) return "-";
  return fmt::format("{:.{}f}x", value, value < 100 ? 2 : 0);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

}  // namespace ioattn::tune
