#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace ioattn::tune {

// Text in columns: the first `left_columns` are aligned left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::size_t left_columns = 1);

  // A row may be shorter than the header: its last cell then runs on to the right.
  void add(std::vector<std::string> row);
  std::string text() const;  // every line ends with '\n'

 private:
  std::size_t left_columns_;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

std::string grouped(index_t value);    // "12,345,678"
std::string grouped(double value);     // rounded down to an integer
std::string ratio_text(double value);  // "1.23x", "-" if it is not finite
std::string seconds_text(double seconds);

}  // namespace ioattn::tune
