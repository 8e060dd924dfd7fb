#include "tune/reports/sparse_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "theory/bounds.hpp"
#include "theory/sparse_bounds.hpp"
#include "tune/command_error.hpp"
#include "tune/files/output_files.hpp"
#include "tune/files/sparse_matrix.hpp"
#include "tune/reports/bounds_report.hpp"
#include "tune/text/table.hpp"

namespace ioattn::tune {
namespace {

double entries(const SparsePattern& a) { return static_cast<double>(a.entries()); }

// A1 and A2, by rows of tokens, and X between them.
struct Factors {
  SparsePattern a1, x, a2;
};

// What both bracketings make.
struct Bracketings {
  theory::SparseCounts counts;
  double from_left = 0, from_right = 0;  // multiply-adds

  explicit Bracketings(const Factors& of) {
    const SparsePattern a2_transposed = transposed(of.a2);
    const PatternProduct left = multiply(of.a1, of.x), right = multiply(of.x, a2_transposed);
    const PatternProduct scores = multiply(left.pattern, a2_transposed);
    from_left = left.multiply_adds + scores.multiply_adds;
    from_right = right.multiply_adds + multiply(of.a1, right.pattern).multiply_adds;
    counts = {entries(of.a1),        entries(of.a2),         entries(of.x),
              entries(left.pattern), entries(right.pattern), entries(scores.pattern)};
  }
};

// Of the entries that have a part in some score: those of X where A1 has the column and A2 too, and
// of A1 and A2 where X then has anything. The others need not be read.
double bound_of_used(const Factors& all, const Bracketings& of_all, bool tied, index_t M) {
  const SparsePattern columns_of_a1 = transposed(all.a1), columns_of_a2 = transposed(all.a2);
  const auto by_x = [](const SparsePattern& rows) {
    return [&rows](index_t, index_t column) { return rows.has_row(column); };
  };
  const SparsePattern x = entries_where(all.x, [&](index_t row, index_t column) {
    return columns_of_a1.has_row(row) && columns_of_a2.has_row(column);
  });
  const SparsePattern columns_of_x = transposed(x);
  const Factors used = {entries_where(all.a1, by_x(x)), x,
                        entries_where(all.a2, by_x(columns_of_x))};
  const bool all_are = used.a1.entries() == all.a1.entries() && x.entries() == all.x.entries() &&
                       used.a2.entries() == all.a2.entries();
  const Bracketings made = all_are ? of_all : Bracketings(used);
  theory::SparseCounts counts = made.counts;
  if (tied) {  // read once, on whichever side
    counts.a1 = entries(entries_where(all.a1, [&](index_t, index_t column) {
      return x.has_row(column) || columns_of_x.has_row(column);
    }));
  }
  return std::min(theory::sparse_products_bound(counts, {made.from_left, counts.a1_x, tied}, M),
                  theory::sparse_products_bound(counts, {made.from_right, counts.x_a2, tied}, M));
}

// The scores with one X.
struct ScoresCase {
  std::string x;
  theory::SparseCounts counts;
  double multiply_adds = 0;  // in the cheaper bracketing
  double formula = 0, dividing_point = 0, bound = 0;
};

ScoresCase scores_of(const std::string& name, const Factors& factors, bool tied, index_t M) {
  const Bracketings made(factors);
  ScoresCase of;
  of.x = name;
  of.counts = made.counts;
  of.multiply_adds = std::min(made.from_left, made.from_right);
  of.formula = theory::paper_sparse_formula(of.counts, M);
  of.dividing_point = theory::paper_sparse_dividing_point(of.counts);
  of.bound = bound_of_used(factors, made, tied, M);
  return of;
}

theory::PairCounts as_mask(const SparsePattern& pattern) {
  const auto rows_of = [](const SparsePattern& a) {
    double rows = 0;
    for (std::size_t i = 1; i < a.start.size(); ++i) rows += a.start[i] > a.start[i - 1] ? 1 : 0;
    return rows;
  };
  return {entries(pattern), rows_of(pattern), rows_of(transposed(pattern))};
}

Json case_json(const ScoresCase& of) {
  Json json;
  json["X"] = of.x;
  json["nonzeros"] = {{"A1", of.counts.a1},       {"A2", of.counts.a2},
                      {"X", of.counts.x},         {"A1 X", of.counts.a1_x},
                      {"X A2^T", of.counts.x_a2}, {"A1 X A2^T", of.counts.scores}};
  json["multiply_adds"] = of.multiply_adds;
  json["paper_formula"] = of.formula;
  json["paper_formula_is"] = "worst case over matrices with these counts, constant 1";
  json["dividing_point"] = of.dividing_point;
  json["scores_lower_bound"] = of.bound;
  json["scores_lower_bound_is"] = "for these matrices, class F";
  return json;
}

}  // namespace

void print_sparse(const std::vector<std::string>& files, index_t d, index_t M, bool json) {
  if (files.size() > 3) throw UsageError("--sparse takes A1, A2 and X at most");
  const SparsePattern a1 = read_matrix_market(files[0]);
  const bool tied = files.size() < 2 || same_file(files[1], files[0]);
  const SparsePattern a2 = tied ? a1 : read_matrix_market(files[1]);
  if (a2.cols != a1.cols) throw UsageError(files[1] + " has other columns than " + files[0]);
  std::vector<ScoresCase> cases;
  if (files.size() == 3) {
    const SparsePattern x = read_matrix_market(files[2]);
    if (x.rows != a1.cols || x.cols != a1.cols) {
      throw UsageError(files[2] + fmt::format(" is not {} x {}", a1.cols, a1.cols));
    }
    cases.push_back(scores_of(files[2], {a1, x, a2}, tied, M));
  } else {
    cases.push_back(scores_of("identity", {a1, identity_pattern(a1.cols), a2}, tied, M));
    if (a1.cols <= 4096) {
      cases.push_back(scores_of("full", {a1, full_pattern(a1.cols, a1.cols), a2}, tied, M));
    }
  }
  const theory::PairCounts mask = as_mask(a1);
  const auto bounds_of = [&](Pass pass) {
    return theory::masked_bounds(pass, mask, d, d, Tie::none, M);
  };
  constexpr Pass passes[] = {Pass::backward, Pass::forward};
  if (json) {
    Json all;
    all["files"] = files;
    all["rows"] = a1.rows;
    all["cols"] = a1.cols;
    all["M"] = M;
    for (const ScoresCase& of : cases) all["scores"].push_back(case_json(of));
    if (d > 0) {
      all["mask"] = {{"pairs", mask.pairs}, {"rows", mask.rows}, {"columns", mask.columns}};
      for (const Pass pass : passes) {
        for (const auto algorithms : {theory::AlgorithmClass::P, theory::AlgorithmClass::F}) {
          all["mask"][name_of(pass)].push_back(class_json(algorithms, bounds_of(pass)));
        }
      }
    }
    print_json(all);
    return;
  }
  fmt::print("{}: {} x {}, {} entries; M = {} words\n", files[0], a1.rows, a1.cols,
             grouped(a1.entries()), grouped(M));
  Table table({"scores A1 X A2^T, X", "entries of A1 X", "of scores", "multiply-adds",
               "paper, worst case", "its dividing M", "these matrices, F"});
  for (const ScoresCase& of : cases) {
    table.add({of.x, grouped(of.counts.a1_x), grouped(of.counts.scores), grouped(of.multiply_adds),
               grouped(of.formula), grouped(of.dividing_point), grouped(of.bound)});
  }
  fmt::print(
      "{}  paper, worst case: its formula with constant 1, for some matrices with as many entries, "
      "not for these\n",
      table.text());
  for (const Pass pass : passes) {
    if (d == 0) break;
    fmt::print("\n{} pass, dense operands of d = {}, {} pairs of {} queries and {} keys\n{}",
               name_of(pass), d, grouped(mask.pairs), grouped(mask.rows), grouped(mask.columns),
               classes_text(bounds_of(pass)));
  }
}

}  // namespace ioattn::tune
