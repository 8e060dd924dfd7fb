#include "tune/figure/figure_table.hpp"

#include <algorithm>
#include <cmath>

#include "theory/bounds.hpp"

namespace ioattn::tune {
namespace {

struct Column {
  const char* cache;
  index_t M;
  bool is_large;
};

// The formula of a cell: of Z_input = nd and Z_QK = n^2 where it is one of nonzero entries.
double formula_of(const LayerShape& shape, const Column& column) {
  const double n = double(shape.n), d = double(shape.d), M = double(column.M);
  return column.is_large ? n * n * d * d / M : n * n * d / std::sqrt(M);
}

void add_upper(Pass pass, const LayerShape& shape, const Column& column, bool count,
               std::vector<TableCell>* cells) {
  const bool forward = pass == Pass::forward;
  for (const Author author : {Author::paper, Author::anyone}) {
    const std::optional<Contender> best = fewest_words(pass, shape, column.M, author);
    if (!best) continue;
    TableCell cell;
    cell.row = std::string(forward ? "Forward" : "Backward") + " upper, " +
               (author == Author::paper ? "the paper's best that fits" : "best");
    cell.cache = column.cache;
    cell.M = column.M;
    cell.formula = column.is_large ? "O(n²d²/M)" : "O(n²d/√M)";
    cell.formula_words = formula_of(shape, column);
    cell.what = name_of(best->candidate.schedule);
    cell.words = double(best->words());
    if (count) cell.counted = counted_words(*best);
    cells->push_back(cell);
  }
}

void add_lower(Pass pass, const LayerShape& shape, const Column& column, bool sparse,
               std::vector<TableCell>* cells) {
  for (const theory::AlgorithmClass algorithms :
       {theory::AlgorithmClass::P, theory::AlgorithmClass::F}) {
    if (sparse && algorithms == theory::AlgorithmClass::F) continue;
    const theory::Bound bound = theory::lower_bound(pass, algorithms, shape, column.M);
    TableCell cell;
    cell.row = std::string(sparse ? "Sparse: " : "") +
               (pass == Pass::forward ? "Forward lower" : "Backward lower") +
               (sparse ? ", dense instance" : "");
    if (!sparse)
      cell.row +=
          algorithms == theory::AlgorithmClass::P ? ", pebble game" : ", one accumulator per entry";
    cell.cache = column.cache;
    cell.M = column.M;
    cell.formula = column.is_large ? (sparse ? "Ω(Z_input²/M)" : "Ω(n²d²/M)")
                                   : (sparse ? "Ω(Z_input √Z_QK/√M)" : "Ω(n²d/√M)");
    cell.formula_words = formula_of(shape, column);
    cell.what = std::string("bound ") + bound.name;
    cell.assumption = bound.assumption;
    cell.words = bound.words;
    cells->push_back(cell);
  }
}

}  // namespace

std::vector<TableCell> make_table(const LayerShape& shape, bool count) {
  const index_t square = shape.d * shape.d;
  // The formula is for M up to nd.
  const Column columns[] = {{"large", std::min(4 * square, shape.n * shape.d), true},
                            {"small", std::max<index_t>(square / 16, 16), false}};
  std::vector<TableCell> cells;
  for (const bool sparse : {false, true}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Column& column : columns)
        if (!sparse) add_upper(pass, shape, column, count, &cells);
      for (const Column& column : columns) add_lower(pass, shape, column, sparse, &cells);
    }
  }
  return cells;
}

}  // namespace ioattn::tune
