#include <gtest/gtest.h>

#include "base/half.hpp"
#include "cli/support/npy_bytes.hpp"
#include "cli/support/temporary_directory.hpp"
#include "cli/support/written_npy.hpp"
#include "data_path.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"
#include "tune/files/npy_tensor.hpp"

// 16-bit numbers in .npy files: NumPy's f16, and bf16 as others write it.
namespace {

using namespace ioattn;
using namespace ioattn_cli_test;

template <class T>
std::vector<float> floats(const tune::Tensor<T>& tensor) {
  std::vector<float> values;
  for (const T x : tensor.data) values.push_back(static_cast<float>(to_compute(x)));
  return values;
}

TEST(NpyHalf, ReadsWhatNumPyWrote) {
  const std::string path = ioattn_test::data_path("npy/half.npy");
  std::vector<float> expected;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j) expected.push_back(10.0F * float(i) + float(j) / 4);
  EXPECT_EQ(tune::read_npy_header(path).dtype, DType::f16);
  EXPECT_EQ(floats(tune::read_npy_tensor<f16>(path)), expected);
  EXPECT_EQ(floats(tune::read_npy_tensor<float>(path)), expected);
  EXPECT_EQ(floats(tune::read_npy_tensor<bf16>(path)), expected);
}

TEST(NpyHalf, ReadsMatricesAndBatches) {
  const std::string path = ioattn_test::data_path("npy/half.npy");
  const tune::Matrix<float> wide = tune::read_npy<float>(path);
  const tune::Matrix<f16> same = tune::read_npy<f16>(path);
  EXPECT_EQ(wide.data, floats(tune::read_npy_tensor<f16>(path)));
  EXPECT_EQ(same.rows, 3);
  EXPECT_EQ(same.cols, 5);
  EXPECT_EQ(same.data.size(), 15u);
  const TemporaryDirectory directory;
  std::optional<index_t> batch;
  const std::string stack = directory / "b.npy";
  written_npy<f16>(stack, same.data.data(), {5, 1, 3});
  const tune::Matrix<bf16> rows = tune::read_npy<bf16>(stack, &batch);
  EXPECT_EQ(batch, 5);
  EXPECT_EQ(rows.rows, 5);
  EXPECT_EQ(rows.cols, 3);
  EXPECT_THROW((void)tune::read_npy<bf16>(stack), tune::UsageError);
}

TEST(NpyHalf, ReadsBf16UnderEitherName) {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.npy", data("\x80\x3f\x20\xc1", 4);
  for (const char* descr : {"|V2", "<V2", "<u2"}) {
    write_file(path, npy_header(npy_dictionary(descr, false, "(1, 2)")) + data);
    EXPECT_EQ(tune::read_npy_header(path).dtype, DType::bf16);
    EXPECT_EQ(tune::read_npy_header(path).is_raw, descr[1] == 'u');
    EXPECT_EQ(floats(tune::read_npy_tensor<bf16>(path)), (std::vector<float>{1, -10}));
    // Integers may be anything else.
    if (descr[1] == 'u') {
      EXPECT_THROW((void)tune::read_npy_tensor<float>(path), tune::UsageError);
    } else {
      EXPECT_EQ(floats(tune::read_npy_tensor<float>(path)), (std::vector<float>{1, -10}));
    }
  }
}

template <class S>
void check_writing(const char* descr) {
  const TemporaryDirectory directory;
  const std::string path = directory / "a.npy";
  std::vector<S> values;
  for (const float x : {1.0F, -2.5F, 0.0F, 240.0F, 0.015625F, -8.0F})
    values.push_back(from_float<S>(x));
  written_npy<S>(path, values.data(), {2, 3});
  const NpyArray array = parse_npy(read_file(path));
  EXPECT_EQ(array.descr, descr);
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(array.values, (std::vector<double>{1, -2.5, 0, 240, 0.015625, -8}));
  EXPECT_EQ((read_file(path).size() - array.data.size()) % 64, 0u);
  EXPECT_THROW(written_npy<S>(directory / "none/a.npy", values.data(), {2, 3}), tune::RunError);
}

TEST(NpyHalf, WritesWhatWasGiven) {
  check_writing<bf16>("|V2");
  check_writing<f16>("<f2");
}

}  // namespace
