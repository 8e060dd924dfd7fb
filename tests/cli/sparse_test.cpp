// `ioattn bounds --sparse`, on a real matrix and on small ones whose counts are known.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/support/command.hpp"
#include "cli/support/npy_bytes.hpp"
#include "cli/support/temporary_directory.hpp"
#include "data_path.hpp"
#include "reference/sanitizer.hpp"
#include "tune/command_error.hpp"
#include "tune/files/sparse_matrix.hpp"

namespace {

using namespace ioattn_cli_test;
using ioattn::tune::SparsePattern;
using Json = nlohmann::json;

const std::string matrix = ioattn_test::data_path("sparse/illc1033.mtx");

bool reads_files() {
  try {
    ioattn::tune::read_matrix_market(matrix);
    return true;
  } catch (const ioattn::tune::UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("CHOLMOD"), std::string::npos) << error.what();
    return false;
  }
}

Json bounds(const Arguments& more) {
  const RunResult result = run_ioattn(Arguments{"bounds", "--json", "--M", "64"} + more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return Json::parse(result.out);
}

std::string coordinates(const std::string& kind, const std::string& lines) {
  return "%%MatrixMarket matrix coordinate " + kind + "\n" + lines;
}

TEST(SparsePatterns, ProductsAndTransposes) {
  using namespace ioattn::tune;
  const SparsePattern a = {2, 3, {0, 2, 3}, {0, 2, 1}};  // x.x / .x.
  const SparsePattern t = transposed(a);
  EXPECT_EQ(t.rows, 3);
  EXPECT_EQ(t.start, (std::vector<ioattn::index_t>{0, 1, 2, 3}));
  EXPECT_EQ(t.column, (std::vector<ioattn::index_t>{0, 1, 0}));
  const PatternProduct gram = multiply(a, t);
  EXPECT_EQ(gram.pattern.entries(), 2);  // the diagonal
  EXPECT_EQ(gram.multiply_adds, 3);
  const PatternProduct full = multiply(a, full_pattern(3, 4));
  EXPECT_EQ(full.pattern.entries(), 8);
  EXPECT_EQ(full.multiply_adds, 12);
  EXPECT_EQ(multiply(a, identity_pattern(3)).pattern.column, a.column);
}

// Two names of one file are one matrix, whose words count once.
TEST(SparseCommand, OneFileIsOneMatrix) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const std::string twice = ioattn_test::data_path("sparse/../sparse/illc1033.mtx");
  EXPECT_EQ(bounds({"--sparse", matrix, twice})["scores"], bounds({"--sparse", matrix})["scores"]);
}

TEST(SparseCommand, EntriesThatNoScoreTakesNeedNotBeRead) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const TemporaryDirectory directory;
  const std::string dense = directory / "dense.mtx", one = directory / "one.mtx",
                    column = directory / "column.mtx";
  std::string entries;
  for (int i = 1; i <= 50; ++i) {
    for (int k = 1; k <= 40; ++k) entries += std::to_string(i) + " " + std::to_string(k) + "\n";
  }
  write_file(dense, coordinates("pattern general", "50 40 2000\n" + entries));
  write_file(one, coordinates("pattern general", "40 40 1\n1 1\n"));
  write_file(column, coordinates("pattern general", "3 3 3\n1 1\n2 1\n3 1\n"));
  // One column of A and the entry of X.
  EXPECT_EQ(bounds({"--sparse", dense, dense, one})["scores"][0]["scores_lower_bound"], 50 + 1);
  for (const Json& of_x : bounds({"--sparse", column})["scores"])  // the identity, and full
    EXPECT_EQ(of_x["scores_lower_bound"], 3 + 1);
}

TEST(SparseCommand, RealMatrix) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const Json json = bounds({"--sparse", matrix, "--d", "64"});
  EXPECT_EQ(json["rows"], 1033);
  EXPECT_EQ(json["cols"], 320);
  ASSERT_EQ(json["scores"].size(), 2u);
  const Json &identity = json["scores"][0], &full = json["scores"][1];
  // 4732 entries are stored, 13 of them 0.
  EXPECT_EQ(identity["nonzeros"]["A1"], 4719);
  EXPECT_EQ(identity["nonzeros"]["A1 X"], 4719);
  EXPECT_EQ(full["nonzeros"]["X"], 320 * 320);
  EXPECT_EQ(full["nonzeros"]["A1 X"], 1033 * 320);
  EXPECT_EQ(full["nonzeros"]["A1 X A2^T"], 1033 * 1033);
  EXPECT_EQ(full["multiply_adds"], 4719.0 * 320 + 1033.0 * 4719);
  const double z = 4719, scores = identity["nonzeros"]["A1 X A2^T"];
  EXPECT_GT(scores, 1033);
  EXPECT_LT(scores, 1033 * 1033);
  const double small = (z * std::sqrt(scores) + std::sqrt(z * 320 * z)) / 8;
  EXPECT_NEAR(identity["paper_formula"].get<double>(), std::min((z * z + z * 320) / 64, small),
              1e-6 * small);
  EXPECT_NE(identity["paper_formula_is"].get<std::string>().find("worst case"), std::string::npos);
  EXPECT_GE(identity["scores_lower_bound"], 4719 + 320);
  EXPECT_EQ(json["mask"]["pairs"], 4719);
  EXPECT_EQ(json["mask"]["columns"], 320);
  for (const char* pass : {"backward", "forward"}) {
    EXPECT_GT(json["mask"][pass][1]["lower_bound"], 2 * 1033 * 64);
  }
}

TEST(SparseCommand, SmallMatrices) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const TemporaryDirectory directory;
  // Both halves of a symmetric matrix count, and a stored 0 does not.
  write_file(directory / "s.mtx", coordinates("real symmetric", "3 3 3\n1 1 1\n3 1 2\n2 2 0\n"));
  write_file(directory / "p.mtx", coordinates("pattern general", "2 3 2\n1 2\n2 3\n"));
  const Json json = bounds({"--sparse", directory / "s.mtx", directory / "p.mtx"});
  EXPECT_EQ(json["scores"][0]["nonzeros"]["A1"], 3);
  EXPECT_EQ(json["scores"][0]["nonzeros"]["A2"], 2);
  const Json with_x =
      bounds({"--sparse", directory / "p.mtx", directory / "p.mtx", directory / "s.mtx"});
  ASSERT_EQ(with_x["scores"].size(), 1u);
  EXPECT_EQ(with_x["scores"][0]["nonzeros"]["A1 X"], 1);  // row 3 of X has an entry, row 2 none
  EXPECT_FALSE(with_x.contains("mask"));
}

// Not what CHOLMOD makes of them.
TEST(SparseCommand, WrongEntries) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const struct {
    const char *kind, *text, *why;
  } wrong[] = {
      {"pattern general", "3 3 1\n1 1\n2 2\n3 3\n", "3 entries where the header tells 1"},
      {"pattern general", "3 3 2\n1 1\n", "1 entries where the header tells 2"},
      {"pattern general", "10 10 1000000000000000\n1 1\n", "the header tells 1000000000000000"},
      {"real general", "3 3 1\n1.5 1 1\n", "entry 1"},
      {"real general", "3 3 1\n0 0 1\n", "entry 1"},
      {"real general", "3 3 2\n1 1 1\n4 1 1\n", "entry 2"},
      {"real symmetric", "3 2 2\n1 1 1\n2 1 1\n", "not square"},
  };
  const TemporaryDirectory directory;
  for (const auto& one : wrong) {
    write_file(directory / "wrong.mtx", coordinates(one.kind, one.text));
    const RunResult result =
        run_ioattn({"bounds", "--M", "64", "--d", "4", "--sparse", directory / "wrong.mtx"});
    EXPECT_EQ(result.exit_code, 2) << one.text;
    EXPECT_NE(result.err.find(one.why), std::string::npos) << result.err;
  }
}

TEST(SparseCommand, WrongFiles) {
  const TemporaryDirectory directory;
  write_file(directory / "text.mtx", "no matrix\n");
  write_file(directory / "p.mtx", coordinates("pattern general", "2 3 2\n1 2\n2 3\n"));
  const std::string bad[] = {directory / "missing.mtx", directory / "text.mtx"};
  for (const std::string& file : bad) {
    const RunResult result = run_ioattn({"bounds", "--M", "64", "--sparse", file});
    EXPECT_EQ(result.exit_code, 2) << file;
    EXPECT_NE(result.err.find(file), std::string::npos) << result.err;
  }
  write_file(directory / "long.mtx", coordinates("pattern general", "% x\n9 20000000 1\n1 1\n"));
  const RunResult sides = run_ioattn({"bounds", "--M", "64", "--sparse", directory / "long.mtx"});
  EXPECT_EQ(sides.exit_code, 2);
  EXPECT_NE(sides.err.find("long.mtx: more than 10^7 rows or columns"), std::string::npos)
      << sides.err;
  const RunResult folder = run_ioattn({"bounds", "--M", "64", "--sparse", directory.path()});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_NE(folder.err.find("Is a directory"), std::string::npos) << folder.err;
  const RunResult widths =
      run_ioattn({"bounds", "--M", "64", "--sparse", matrix, directory / "p.mtx"});
  EXPECT_EQ(widths.exit_code, 2);
  EXPECT_EQ(run_ioattn({"bounds", "--M", "64", "--sparse", matrix, "--n", "5"}).exit_code, 2);
}

#if !IOATTN_SANITIZER_OWNS_MALLOC
TEST(SparseCommand, TooLittleMemoryIsOne) {
  if (!reads_files()) GTEST_SKIP() << "built without CHOLMOD";
  const TemporaryDirectory directory;
  write_file(directory / "long.mtx", coordinates("pattern general", "10000000 10000000 1\n1 1\n"));
  const RunResult result = run_ioattn({"bounds", "--M", "64", "--sparse", directory / "long.mtx"},
                                      {}, "ulimit -v 300000");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("long.mtx: out of memory"), std::string::npos) << result.err;
}
#endif

}  // namespace
