#pragma once

#include <string>
#include <vector>

// .npy files made here, without the code under test.
namespace ioattn_cli_test {

// Magic, version, length and the header text, padded with spaces to a multiple of `alignment` bytes
// and ended by a newline.
std::string npy_header(const std::string& dictionary, int version = 1, std::size_t alignment = 64);

// The dictionary as NumPy writes it, e.g. ("<f4", false, "(3, 5)").
std::string npy_dictionary(const std::string& descr, bool fortran_order, const std::string& shape);

// A whole file of a matrix in C order.
template <class T>
std::string npy_matrix(std::size_t rows, std::size_t cols, const std::vector<T>& values);

// The values and the shape of a file in C order with a NumPy header; throws if it is none.
struct NpyArray {
  std::string descr;
  std::vector<std::size_t> shape;
  std::vector<double> values;
  std::string data;  // the bytes of the values
};
NpyArray parse_npy(const std::string& bytes);

}  // namespace ioattn_cli_test
