// ioattn figure: its files say what the theory says, and are well-formed; no curve of words is
// below a bound; what it refuses.

#include <expat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/support/command.hpp"
#include "cli/support/gnuplot.hpp"
#include "cli/support/temporary_directory.hpp"
#include "theory/bounds.hpp"
#include "theory/crossovers.hpp"
#include "theory/word_level.hpp"
#include "tune/figure/figure_files.hpp"
#include "tune/figure/figure_points.hpp"

namespace {

using namespace ioattn;
using namespace ioattn_cli_test;
namespace w = ioattn::theory::word_level;

// "" or what expat finds wrong; counts elements by name.
std::string xml_error(const std::string& text, std::map<std::string, int>* elements) {
  XML_Parser parser = XML_ParserCreate("UTF-8");
  XML_SetUserData(parser, elements);
  XML_SetStartElementHandler(parser, [](void* data, const XML_Char* name, const XML_Char**) {
    ++(*static_cast<std::map<std::string, int>*>(data))[name];
  });
  std::string error;
  if (XML_Parse(parser, text.data(), static_cast<int>(text.size()), 1) != XML_STATUS_OK)
    error = std::string(XML_ErrorString(XML_GetErrorCode(parser))) + " in line " +
            std::to_string(XML_GetCurrentLineNumber(parser));
  XML_ParserFree(parser);
  return error;
}

std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        rows.back().emplace_back();
      } else {
        rows.back().back() += c;
      }
    }
  }
  return rows;
}

std::string of(const w::Cost& cost) { return cost ? std::to_string(cost->total()) : std::string(); }

void expect_number(const std::string& text, double value) {
  EXPECT_EQ(text.empty() ? std::nan("") : std::stod(text), value) << text;
}

TEST(Figure, ColumnsAreTheTheorysFunctions) {
  const LayerShape shape = tune::figure_shape(300, 24);
  const auto rows = read_csv(tune::curves_csv(tune::make_figure(shape)));
  const std::vector<std::string> head = {
      "M",    "M_over_d2", "paper_formula", "paper_small", "paper_large_nominal", "paper_large",
      "ours", "bound_f",   "bound_p",       "compulsory",  "ours_schedule"};
  ASSERT_EQ(rows[0], head);
  ASSERT_GT(rows.size(), 150u);
  std::vector<std::string> marks = {"64", "144", "576", "864", "3456", "7200"};
  std::size_t by_formula = 0;  // the others by the blocks of a plan
  for (std::size_t k = 1; k < rows.size(); ++k) {
    const std::vector<std::string>& row = rows[k];
    ASSERT_EQ(row.size(), head.size());
    const index_t M = std::stoll(row[0]);
    SCOPED_TRACE("M = " + row[0]);
    marks.erase(std::remove(marks.begin(), marks.end(), row[0]), marks.end());
    expect_number(row[1], double(M) / 576);
    expect_number(row[2], theory::paper_formula(shape, M));
    EXPECT_EQ(row[3], of(w::paper_small_backward(shape, M)));
    EXPECT_EQ(row[4], std::to_string(w::paper_large_backward_nominal(shape, M).total()));
    EXPECT_EQ(row[5], of(w::paper_large_backward(shape, M)));
    Schedule best;
    ASSERT_TRUE(parse_schedule(row[10], &best));
    const std::string formula = of(w::least_cost(Pass::backward, best, shape, M));
    by_formula += row[6] == formula;
    EXPECT_TRUE(formula.empty() || std::stoll(row[6]) <= std::stoll(formula));
    for (const Schedule other :
         {Schedule::row_stream, Schedule::stationary, Schedule::q_stored, Schedule::half_dim,
          Schedule::weight_resident, Schedule::resident}) {
      const w::Cost cost = w::least_cost(Pass::backward, other, shape, M);
      if (cost) {
        EXPECT_LE(std::stoll(row[6]), cost->total()) << name_of(other);
      }
    }
    using theory::AlgorithmClass;
    const double p = theory::lower_bound(Pass::backward, AlgorithmClass::P, shape, M).words;
    const double f = theory::lower_bound(Pass::backward, AlgorithmClass::F, shape, M).words;
    expect_number(row[7], f);
    expect_number(row[8], p);
    expect_number(row[9], theory::compulsory_bound(Pass::backward, shape));
    EXPECT_LE(std::stod(row[9]), p);
    EXPECT_LE(p, f);
    for (const std::size_t fitting : {3u, 5u, 6u})
      EXPECT_TRUE(row[fitting].empty() || p <= std::stod(row[fitting])) << head[fitting];
    if (theory::class_of(Pass::backward, best) == AlgorithmClass::F) {
      EXPECT_LE(f, std::stod(row[6]));
    }
  }
  EXPECT_TRUE(marks.empty()) << marks.front();
  EXPECT_GT(by_formula, rows.size() / 2);
}

// With a tile of scores parked in memory where that is less.
TEST(Figure, OursIsNoMoreThanTilesMove) {
  const LayerShape shape = tune::figure_shape(256, 256);
  const tune::Figure figure = tune::make_figure(shape);
  int best = 0, parked = 0;
  for (const tune::Curve& curve : figure.curves) {
    if (std::string_view(curve.key) != "ours") continue;
    for (std::size_t i = 0; i < figure.M.size(); ++i) {
      const index_t M = figure.M[i];
      const auto tiles = theory::exact_cost(Pass::backward, Schedule::tile_fused, shape, M);
      if (!tiles || !curve.words[i]) continue;
      EXPECT_LE(*curve.words[i], double(tiles->total())) << M;
      if (figure.best[i] != std::string_view("tile_fused")) continue;
      ++best;
      const auto two = w::tile_fused_backward(shape, M, w::ScoreTile::resident);
      parked += !two || *curve.words[i] < double(two->total());
    }
  }
  EXPECT_GT(best, 10);
  EXPECT_GT(parked, 10);
}

TEST(Figure, TableHasEveryFormulaAndCountsAreExact) {
  const LayerShape shape = tune::figure_shape(200, 16);
  const std::vector<tune::TableCell> table = tune::make_table(shape, true);
  int counted = 0;
  std::map<std::string, int> formulas;
  for (const tune::TableCell& cell : table) {
    SCOPED_TRACE(cell.row + ", " + cell.cache);
    ++formulas[cell.formula];
    const bool large = std::string(cell.cache) == "large";
    EXPECT_EQ(cell.M, large ? 1024 : 16);
    const double formula = large ? 200.0 * 200 * 256 / 1024 : 200.0 * 200 * 16 / 4;
    EXPECT_DOUBLE_EQ(cell.formula_words, formula);
    EXPECT_DOUBLE_EQ(cell.ratio(), cell.words / formula);
    if (!cell.counted) continue;
    EXPECT_EQ(double(*cell.counted), cell.words);
    ++counted;
  }
  // Two passes, two caches, the paper's and the best; two bounds of each, one for sparse inputs.
  EXPECT_EQ(counted, 8);
  EXPECT_EQ(formulas["O(n²d²/M)"], 4);
  EXPECT_EQ(formulas["O(n²d/√M)"], 4);
  EXPECT_EQ(formulas["Ω(n²d²/M)"], 4);
  EXPECT_EQ(formulas["Ω(n²d/√M)"], 4);
  EXPECT_EQ(formulas["Ω(Z_input²/M)"], 2);
  EXPECT_EQ(formulas["Ω(Z_input √Z_QK/√M)"], 2);
  const auto csv = read_csv(tune::table_csv(table));
  ASSERT_EQ(csv.size(), table.size() + 1);
  EXPECT_EQ(csv[0].back(), "assumption");
  for (std::size_t k = 0; k < table.size(); ++k) {
    EXPECT_EQ(csv[k + 1].size(), csv[0].size());
    EXPECT_EQ(csv[k + 1].back().empty(), table[k].what.find("bound") == std::string::npos);
  }
  for (const tune::TableCell& cell : tune::make_table(tune::figure_shape(64, 64), false)) {
    EXPECT_LE(cell.M, 64 * 64) << "beyond nd the formula is less than what is read once";
  }
}

TEST(Figure, FilesOfTheCommand) {
  IOATTN_SKIP_WITHOUT_GNUPLOT();
  const TemporaryDirectory directory;
  const std::string out = directory / "it's new";
  std::filesystem::create_directories(out);
  write_file(out + "/gnuplot.log", "the user's");
  const RunResult result =
      run_ioattn({"figure", "--n", "120", "--d", "16", "--out", out, "--points", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = result.json();
  ASSERT_EQ(json["files"].size(), 6u);
  for (const auto& file : json["files"])
    EXPECT_TRUE(std::filesystem::exists(file.get<std::string>())) << file;
  EXPECT_EQ(read_file(out + "/gnuplot.log"), "the user's");

  const LayerShape shape = tune::figure_shape(120, 16);
  const std::string csv = read_file(out + "/io.csv");
  EXPECT_EQ(csv, tune::curves_csv(tune::make_figure(shape)));

  std::map<std::string, int> elements;
  const std::string svg = read_file(out + "/io.svg");
  EXPECT_EQ(xml_error(svg, &elements), "");
  EXPECT_EQ(elements["svg"], 1);
  EXPECT_GE(elements["path"], 8);  // a curve each
  EXPECT_NE(svg.find("<title id=\"io-title\">I/O of the backward pass"), std::string::npos);
  EXPECT_NE(svg.find("aria-labelledby=\"io-title io-description\""), std::string::npos);
  // Every entry of the key is drawn, to the right from where it begins, within the picture.
  const tune::Figure figure = tune::make_figure(shape);
  std::vector<std::string> entries = {"counted: the paper's best that fits",
                                      "counted: the best schedule",
                                      "simulated: LRU, the library's plan"};
  for (const tune::Curve& curve : figure.curves) entries.push_back(curve.label);
  for (const std::string& entry : entries) {
    SCOPED_TRACE(entry);
    const std::size_t at = svg.find("<text>" + entry + "</text>");
    ASSERT_NE(at, std::string::npos);
    const std::size_t place = svg.rfind("translate(", at) + 10;
    EXPECT_LT(svg.find("text-anchor=\"start\"", place), at);
    const double x = std::stod(svg.substr(place));
    EXPECT_GT(x, 50);  // for its sample
    EXPECT_LT(x + 8 * double(entry.size()), 1000);
  }
  for (const char* text : {"d²/9", "d²/4", "3d²/2", "6d²", "nd", "ours: the best schedule",
                           "lower bound, pebble game", "counted: the best schedule"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;

  elements.clear();
  const std::string html = read_file(out + "/io.html");
  EXPECT_EQ(xml_error(html, &elements), "");
  EXPECT_EQ(elements["svg"], 1);
  EXPECT_EQ(elements["table"], 3);
  EXPECT_EQ(elements["caption"], 3);
  EXPECT_EQ(html.find("http:"), html.find("http://www.w3.org"));  // nothing is loaded

  const auto points = read_csv(read_file(out + "/points.csv"));
  int best = 0, simulated = 0;
  for (std::size_t k = 1; k < points.size(); ++k) {
    const bool is_simulated = points[k][0] == "simulated_lru";
    const index_t M = std::stoll(points[k][1]),
                  words = is_simulated ? ioattn::tune::simulated_words(M) : M;
    const theory::Bound bound =
        theory::lower_bound(Pass::backward, theory::AlgorithmClass::P, shape, words);
    EXPECT_LE(bound.words, std::stod(points[k][3])) << points[k][0] << " " << M;
    best += points[k][0] == "counted_best";
    simulated += is_simulated;
  }
  EXPECT_GE(best, 6);
  EXPECT_GE(simulated, 4);  // where a plan in register tiles fits
}

TEST(Figure, TableIsCountedWithoutPoints) {
  IOATTN_SKIP_WITHOUT_GNUPLOT();
  const TemporaryDirectory directory;
  const Arguments figure = {"figure", "--n", "100", "--d", "8", "--out", directory / "small",
                            "--json"};
  const auto table = run_ioattn(figure).json()["table"];
  int counted = 0;
  for (const auto& cell : table) {
    if (cell["counted"].is_null()) continue;
    EXPECT_EQ(cell["counted"].get<double>(), cell["words"].get<double>());
    ++counted;
  }
  EXPECT_EQ(counted, 8);
}

TEST(Figure, RefusalsAreOneLine) {
  const TemporaryDirectory directory;
  struct Wrong {
    Arguments arguments;
    const char* why;
  };
  const std::string out = directory / "out";
  for (const Wrong& wrong :
       {Wrong{{"--n", "0", "--d", "16"}, "1"}, Wrong{{"--n", "-3", "--d", "16"}, "n"},
        Wrong{{"--n", "100", "--d", "7"}, "the least is 8"},
        Wrong{{"--n", "15", "--d", "16"}, "at least d, 16"}, Wrong{{"--n", "100", "--d", "x"}, "x"},
        Wrong{{"--n", "100"}, "--d"}, Wrong{{"--n", "2147483648", "--d", "65536"}, "64 bits"},
        Wrong{{"--n", "99999999999", "--d", "64"}, "2147483648"},
        Wrong{{"--n", "65536", "--d", "64", "--points"}, "4294967296"}}) {
    SCOPED_TRACE(wrong.why);
    const RunResult result = run_ioattn(Arguments{"figure", "--out", out} + wrong.arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_TRUE(is_one_error_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(wrong.why), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out));
  }
  EXPECT_EQ(run_ioattn({"figure", "--n", "64", "--d", "16"}).exit_code, 2);  // no --out
}

TEST(Figure, FailuresAreOneLine) {
  const TemporaryDirectory directory;
  const Arguments arguments = {"figure", "--n", "64", "--d", "16", "--out"};
  const RunResult none =
      run_ioattn(arguments + Arguments{directory / "out"}, {{"PATH", directory.path()}});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(is_one_error_line(none.err)) << none.err;
  EXPECT_NE(none.err.find("apt-get install gnuplot-nox"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(directory / "out")) << "files without a figure";

  const RunResult no_place =
      run_ioattn(arguments + Arguments{directory / "out"}, {{"TMPDIR", "/nowhere"}});
  EXPECT_EQ(no_place.exit_code, 1);
  EXPECT_NE(no_place.err.find("TMPDIR"), std::string::npos) << no_place.err;

  // A gnuplot that fails.
  const std::string broken = directory / "gnuplot";
  write_file(broken, "#!/bin/sh\nprintf 'plot x\\ncannot draw\\n\\n' >&2\nexit 3\n");
  std::filesystem::permissions(broken, std::filesystem::perms::owner_all);
  const RunResult failed =
      run_ioattn(arguments + Arguments{directory / "out"}, {{"PATH", directory.path() + ":/bin"}});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.err.find("gnuplot failed: cannot draw"), std::string::npos) << failed.err;

  if (!has_gnuplot()) return;
  write_file(directory / "file", "");
  const RunResult file = run_ioattn(arguments + Arguments{directory / "file"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_NE(file.err.find("file: Not a directory"), std::string::npos) << file.err;

  const std::string taken = directory / "taken";
  std::filesystem::create_directories(taken + "/io.html");
  const RunResult late = run_ioattn(arguments + Arguments{taken});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_NE(late.err.find("io.html: it is no regular file"), std::string::npos) << late.err;
  for (const auto& entry : std::filesystem::directory_iterator(taken))
    EXPECT_EQ(entry.path().filename(), "io.html") << "a figure in part";
}

}  // namespace
