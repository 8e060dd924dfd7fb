#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tune/figure/figure_points.hpp"

// Table 1 of the paper with numbers: each of its formulas at one M of each regime, beside what
// algorithms move and what is proved.
namespace ioattn::tune {

struct TableCell {
  std::string row;    // "Backward upper"
  const char* cache;  // "large" or "small"
  index_t M = 0;
  const char* formula;  // as the paper prints it
  double formula_words = 0;
  std::string what;        // the schedule, or the bound
  std::string assumption;  // under which the bound is proved; "" of a schedule
  double words = 0;        // exact, by closed formula; of a bound, proved
  std::optional<index_t> counted;

  double ratio() const { return (counted ? double(*counted) : words) / formula_words; }
};

// M of the large cache is 4 d^2, or nd if that is less, of the small one d^2 / 16 or what the
// schedules need. `count`: the schedules are run. The paper's sparse formulas are taken for the
// dense instance, where they are those of the dense pass.
std::vector<TableCell> make_table(const LayerShape& shape, bool count);

}  // namespace ioattn::tune
