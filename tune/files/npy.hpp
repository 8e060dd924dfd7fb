#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/files/matrix.hpp"
#include "tune/files/output_files.hpp"

// NumPy's .npy files (format versions 1.0, 2.0, 3.0). xtensor's reader believes what a header says,
// so the header is parsed and held against the size of the file first.
namespace ioattn::tune {

struct NpyHeader {
  DType dtype = DType::f32;
  bool is_raw = false;  // bf16 as NumPy's unsigned integers, which may be something else
  bool fortran_order = false;
  std::vector<index_t> shape;
  std::size_t data_offset = 0;  // bytes before the data
};

// The header of a file of `file_size` bytes that begins with `bytes`; at most npy_header_limit
// bytes are looked at. Throws UsageError unless the file holds a whole array of little-endian f32,
// f64, f16 or bf16, no byte more or less. bf16, which NumPy has no name for, is '|V2', as ml_dtypes
// writes it, or '<u2'.
constexpr std::size_t npy_header_limit = 65536;
NpyHeader parse_npy_header(std::string_view bytes, std::uint64_t file_size);

// The header of a file. Throws UsageError, beginning with the path.
NpyHeader read_npy_header(const std::string& path);

// A matrix of dimension 2, converted to T: to nearest, f64 by way of f32 where T has 16 bits.
// With `batch` an array of dimension 3 may stand for matrices whose rows follow each other: *batch
// is their number, empty for a matrix. Throws UsageError, beginning with the path.
template <class T>
Matrix<T> read_npy(const std::string& path, std::optional<index_t>* batch = nullptr);

// Writes an array in C order, to be in its place once the files are kept. Throws RunError.
template <class T>
void write_npy(const std::string& path, const T* data, const std::vector<index_t>& shape,
               OutputFiles* files);

}  // namespace ioattn::tune
