#include "tune/files/npy.hpp"
#include "cli/support/text.hpp"
#include "data_path.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "cli/support/npy_bytes.hpp"
#include "cli/support/temporary_directory.hpp"
#include "cli/support/written_npy.hpp"
#include "tune/command_error.hpp"

namespace {

using namespace ioattn;
using namespace ioattn_cli_test;
using tune::Matrix;
using tune::parse_npy_header;
using tune::read_npy;
using tune::UsageError;

std::string data_path(const std::string& name) {
  return ioattn_test::data_path("npy/" + std::string(name) + ".npy");
}

// The message of the error that `body` throws; "" if it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string header_error(const std::string& bytes) {
  return error_of([&] { (void)parse_npy_header(bytes, bytes.size()); });
}

template <class T>
void expect_test_matrix(const Matrix<T>& matrix) {
  ASSERT_EQ(matrix.rows, 3);
  ASSERT_EQ(matrix.cols, 5);
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 5; ++j) {
      EXPECT_EQ(matrix.at(i, j), T(10) * T(i) + T(j) / T(4)) << i << ", " << j;
    }
  }
}

std::string small_file(const std::string& dictionary, int version = 1, std::size_t alignment = 64) {
  std::string data;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) {
      const float value = 10.0f * static_cast<float>(i) + static_cast<float>(j) / 4;
      char bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      data.append(bytes, sizeof value);
    }
  }
  return npy_header(dictionary, version, alignment) + data;
}

class NumpyFile : public testing::TestWithParam<const char*> {};

TEST_P(NumpyFile, IsReadInEitherType) {
  expect_test_matrix(read_npy<float>(data_path(GetParam())));
  expect_test_matrix(read_npy<double>(data_path(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Readable, NumpyFile,
                         testing::Values("c_f4", "c_f8", "fortran_f4", "fortran_f8", "version2",
                                         "version3"));

struct Refused {
  const char* name;
  const char* says;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RefusedFile : public testing::TestWithParam<Refused> {};

TEST_P(RefusedFile, SaysWhyAndWhere) {
  const std::string path = data_path(GetParam().name);
  const std::string error = error_of([&] { (void)read_npy<float>(path); });
  EXPECT_TRUE(contains(error, GetParam().says)) << error;
  EXPECT_EQ(error.rfind(path, 0), 0u) << error;
}

INSTANTIATE_TEST_SUITE_P(Unreadable, RefusedFile,
                         testing::Values(Refused{"big_endian", "big-endian"},
                                         Refused{"int32", "'<i4'"}, Refused{"complex", "'<c8'"},
                                         Refused{"structured", "structured"},
                                         Refused{"scalar", "rank 0"}, Refused{"rank1", "rank 1"},
                                         Refused{"rank3", "rank 3"},
                                         Refused{"no_such_file", "no such file"}));

TEST(NpyReader, ReadsNoRows) {
  const Matrix<double> matrix = read_npy<double>(data_path("empty"));
  EXPECT_EQ(matrix.rows, 0);
  EXPECT_EQ(matrix.cols, 5);
}

TEST(NpyReader, RefusesWhatIsNoRegularFile) {
  EXPECT_TRUE(contains(error_of([] { (void)read_npy<float>("/dev/zero"); }), "not a regular file"));
  EXPECT_TRUE(contains(error_of([] { (void)read_npy<float>("/tmp"); }), "not a regular file"));
}

TEST(NpyReader, RoundsDoublesToNearest) {
  const TemporaryDirectory directory;
  const double value = 1 + 0x1.8p-24;  // nearest float is 1 + 2^-23, truncation gives 1
  write_file(directory / "a.npy", npy_matrix<double>(1, 2, {value, 0.1}));
  const Matrix<float> matrix = read_npy<float>(directory / "a.npy");
  EXPECT_EQ(matrix.at(0, 0), 1 + 0x1p-23f);
  EXPECT_EQ(matrix.at(0, 1), 0.1f);
}

// Legal headers that xtensor's reader does not take, or takes wrongly.
TEST(NpyReader, TakesEveryLegalSpelling) {
  const TemporaryDirectory directory;
  const std::string usual = npy_dictionary("<f4", false, "(3, 5)");
  const std::vector<std::string> files = {
      small_file(usual),
      small_file(usual, 1, 192),  // a length byte above 127
      small_file(usual, 2, 256),
      small_file(usual, 3, 4096),
      small_file(npy_dictionary("=f4", false, "(3, 5)")),
      small_file(npy_dictionary("<f4", false, "( 3 ,5 , )")),
      small_file("{'shape': (3, 5), 'fortran_order': False, 'descr': '<f4'}"),
      small_file("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (3, 5)}"),
      small_file(usual, 1, 1),
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    SCOPED_TRACE(i);
    write_file(directory / "a.npy", files[i]);
    expect_test_matrix(read_npy<float>(directory / "a.npy"));
  }
}

TEST(NpyGuard, RefusesEveryTruncation) {
  for (const char* name : {"c_f4", "fortran_f8", "version2", "version3"}) {
    const std::string bytes = read_file(data_path(name));
    ASSERT_EQ(header_error(bytes), "");
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_NE(header_error(bytes.substr(0, size)), "") << name << " cut to " << size;
    }
    EXPECT_TRUE(contains(header_error(bytes.substr(0, bytes.size() - 1)), "truncated"));
    EXPECT_TRUE(contains(header_error(bytes + "x"), "too long"));
  }
}

TEST(NpyGuard, RefusesShapesThatOverflow) {
  // Products that are small, or that of the data, modulo 2^64.
  for (const char* shape :
       {"(4611686018427387904, 4611686018427387904)", "(4294967296, 4294967296)",
        "(4611686018427387905, 60)", "(2305843009213693952, 8)", "(9223372036854775807, 2)",
        "(0, 4611686018427387904, 4611686018427387904)"}) {
    const std::string error = header_error(small_file(npy_dictionary("<f4", false, shape)));
    EXPECT_TRUE(contains(error, "overflow")) << shape << ": " << error;
  }
  for (const char* shape : {"(9223372036854775808, 1)", "(99999999999999999999999, 1)"}) {
    const std::string error = header_error(small_file(npy_dictionary("<f4", false, shape)));
    EXPECT_TRUE(contains(error, "overflow")) << shape << ": " << error;
  }
}

TEST(NpyGuard, RefusesDamagedHeaders) {
  const std::string good = npy_dictionary("<f4", false, "(3, 5)");
  ASSERT_EQ(header_error(small_file(good)), "");
  for (const char* dictionary :
       {"",
        "{",
        "{}",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 5]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)} x",
        "{'descr: '<f4', 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': <f4, 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f16', 'fortran_order': False, 'shape': (3, 5)}"}) {
    EXPECT_NE(header_error(small_file(dictionary)), "") << dictionary;
  }
  std::string version = small_file(good);
  for (const char major : {'\0', '\4', '\xff'}) {
    version[6] = major;
    EXPECT_TRUE(contains(header_error(version), "version"));
  }
  std::string magic = small_file(good);
  magic[1] = 'n';
  EXPECT_TRUE(contains(header_error(magic), "not a .npy file"));
  EXPECT_TRUE(contains(header_error(npy_header(good, 2, 70000)), "header is too long"));
}

// Whatever is accepted after random damage describes exactly the bytes that are there.
TEST(NpyGuard, AcceptsOnlyWhatTheFileHolds) {
  const std::string good = read_file(data_path("c_f4"));
  std::mt19937 random(1);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = good;
    for (int changes = 1 + round % 3; changes > 0; --changes) {
      const std::size_t at = random() % 128;
      const char* likely = "0123456789(){}',: TrueFals<>=f8";
      bytes[at] = round % 2 == 0 ? likely[random() % std::strlen(likely)]
                                 : static_cast<char>(random() % 256);
    }
    tune::NpyHeader header;
    if (!error_of([&] { header = parse_npy_header(bytes, bytes.size()); }).empty()) {
      ++refused;
      continue;
    }
    ++accepted;
    index_t size = size_of(header.dtype);
    for (const index_t extent : header.shape) {
      ASSERT_GE(extent, 0);
      size *= extent;
    }
    ASSERT_EQ(static_cast<std::size_t>(size) + header.data_offset, bytes.size());
  }
  EXPECT_GT(accepted, 100);  // changes of spaces
  EXPECT_GT(refused, 1000);
}

template <class T>
class NpyWriter : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NpyWriter, Types);

TYPED_TEST(NpyWriter, WritesWhatWasGiven) {
  using T = TypeParam;
  const TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  const std::vector<T> values = {1, -2, T(0.1), 4, 5, T(1e-30)};
  written_npy<T>(path, values.data(), {2, 3});
  NpyArray array = parse_npy(read_file(path));
  EXPECT_EQ(array.descr, sizeof(T) == 4 ? "<f4" : "<f8");
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(array.values, std::vector<double>(values.begin(), values.end()));

  written_npy<T>(path, values.data(), {6});  // replaces the file
  array = parse_npy(read_file(path));
  EXPECT_EQ(array.shape, std::vector<std::size_t>{6});
  EXPECT_EQ(array.values, std::vector<double>(values.begin(), values.end()));

  written_npy<T>(path, nullptr, {0, 3});
  array = parse_npy(read_file(path));
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{0, 3}));
}

TEST(NpyWriterFailure, LeavesNothingBehindOnFailure) {
  const TemporaryDirectory directory;
  const float value = 1;
  EXPECT_THROW(written_npy<float>(directory / "none/a.npy", &value, {1, 1}), tune::RunError);
  std::filesystem::create_directory(directory / "taken.npy");
  EXPECT_THROW(written_npy<float>(directory / "taken.npy", &value, {1, 1}), tune::RunError);
  EXPECT_THROW(written_npy<float>("/proc/a.npy", &value, {1, 1}), tune::RunError);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    EXPECT_EQ(entry.path().filename(), "taken.npy");
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

}  // namespace
