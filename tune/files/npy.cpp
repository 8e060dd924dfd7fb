#include "tune/files/npy.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <xtensor/xadapt.hpp>
#include <xtensor/xnpy.hpp>

#include "tune/command_error.hpp"
#include "tune/files/npy_tensor.hpp"

namespace ioattn::tune {
namespace {

namespace fs = std::filesystem;

struct OpenFile {
  std::ifstream stream;
  std::uint64_t size = 0;
};

OpenFile open_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw UsageError("no such file");
  if (!fs::is_regular_file(status)) throw UsageError("not a regular file");
  OpenFile file;
  file.stream.open(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.stream ? std::streamoff(file.stream.tellg()) : -1;
  if (size < 0) throw UsageError("cannot be read");
  file.size = static_cast<std::uint64_t>(size);
  file.stream.seekg(0);
  return file;
}

NpyHeader header_of(OpenFile* file) {
  std::string bytes(std::min<std::uint64_t>(file->size, npy_header_limit), '\0');
  if (!file->stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    throw UsageError("cannot be read");
  }
  return parse_npy_header(bytes, file->size);
}

// The same array behind a header as xnpy likes it: version 1.0, keys in its order, a length below
// 128, which its signed bytes get right.
std::istringstream normalised(OpenFile* file, const NpyHeader& header) {
  std::string dictionary = "{'descr': '" + std::string(header.dtype == DType::f32 ? "<f4" : "<f8") +
                           "', 'fortran_order': " + (header.fortran_order ? "True" : "False") +
                           ", 'shape': (";
  for (const index_t size : header.shape) dictionary += std::to_string(size) + ",";
  dictionary += ")}";
  dictionary.resize(117, ' ');
  std::string bytes = std::string("\x93NUMPY\x01\0v\0", 10) + dictionary + "\n";
  const std::size_t begin = bytes.size();
  const std::size_t count = static_cast<std::size_t>(file->size) - header.data_offset;
  bytes.resize(begin + count);
  file->stream.seekg(static_cast<std::streamoff>(header.data_offset));
  if (!file->stream.read(bytes.data() + begin, static_cast<std::streamsize>(count))) {
    throw UsageError("cannot be read");
  }
  return std::istringstream(std::move(bytes));
}

// `shape` has 2 sizes or, for a batch, 3.
template <class T, class Source>
Matrix<T> converted(std::istringstream stream, const std::vector<index_t>& shape) {
  const auto array = xt::load_npy<Source>(stream);
  const bool is_batch = shape.size() == 3;
  const index_t entries = is_batch ? shape[0] : 1;
  const index_t rows = shape[shape.size() - 2], cols = shape.back();
  Matrix<T> matrix(entries * rows, cols);
  for (index_t b = 0; b < entries; ++b) {
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < cols; ++j) {
        matrix.at(b * rows + i, j) = static_cast<T>(is_batch ? array(b, i, j) : array(i, j));
      }
    }
  }
  return matrix;
}

// Runs a reader, whose errors do not know the path.
template <class Reader>
auto with_path(const std::string& path, Reader&& reader) {
  try {
    return reader();
  } catch (const UsageError& error) {
    throw UsageError(path + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw RunError(path + ": out of memory");
  }
}

}  // namespace

NpyHeader read_npy_header(const std::string& path) {
  return with_path(path, [&] {
    OpenFile file = open_file(path);
    return header_of(&file);
  });
}

template <class T>
Matrix<T> read_npy(const std::string& path, std::optional<index_t>* batch) {
  bool by_xtensor = false;  // which knows no numbers in 16 bits
  Matrix<T> matrix = with_path(path, [&]() -> Matrix<T> {
    OpenFile file = open_file(path);
    const NpyHeader header = header_of(&file);
    const std::size_t rank = header.shape.size();
    if (rank != 2 && !(rank == 3 && batch != nullptr)) {
      throw UsageError("an array of rank " + std::to_string(rank) + "; a matrix (rank 2)" +
                       (batch != nullptr ? " or a batch of them (rank 3)" : "") + " needed");
    }
    if (rank == 3 && header.shape[0] == 0) throw UsageError("a batch without matrices");
    if (batch != nullptr) *batch = rank == 3 ? std::optional(header.shape[0]) : std::nullopt;
    if constexpr (!is_half_storage<T>) {
      by_xtensor = !is_half(header.dtype);
      if (by_xtensor) {
        std::istringstream stream = normalised(&file, header);
        return header.dtype == DType::f32 ? converted<T, float>(std::move(stream), header.shape)
                                          : converted<T, double>(std::move(stream), header.shape);
      }
    }
    return {};
  });
  if (by_xtensor) return matrix;
  Tensor<T> tensor = read_npy_tensor<T>(path);
  matrix.rows = tensor.heads * tensor.rows;
  matrix.cols = tensor.cols;
  matrix.data = std::move(tensor.data);
  return matrix;
}

namespace {

template <class T>
void dump(const std::string& path, const T* data, const std::vector<std::size_t>& sizes,
          std::size_t count) {
  xt::dump_npy(path, xt::adapt(data, count, xt::no_ownership(), sizes));
}

// xtensor knows no 16-bit floats: a header of version 1.0, padded to a multiple of 64 bytes.
template <class S>
void dump_half(const std::string& path, const S* data, const std::vector<std::size_t>& sizes,
               std::size_t count) {
  std::string dictionary = std::string("{'descr': '") + (std::is_same_v<S, f16> ? "<f2" : "|V2") +
                           "', 'fortran_order': False, 'shape': (";
  for (const std::size_t size : sizes) dictionary += std::to_string(size) + ",";
  dictionary += "), }";
  const std::size_t length = (10 + dictionary.size() + 1 + 63) / 64 * 64 - 10;
  dictionary.resize(length - 1, ' ');
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(length & 0xff)
       << static_cast<char>(length >> 8) << dictionary << '\n';
  file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(S)));
}
void dump(const std::string& path, const bf16* data, const std::vector<std::size_t>& sizes,
          std::size_t count) {
  dump_half(path, data, sizes, count);
}
void dump(const std::string& path, const f16* data, const std::vector<std::size_t>& sizes,
          std::size_t count) {
  dump_half(path, data, sizes, count);
}

}  // namespace

template <class T>
void write_npy(const std::string& path, const T* data, const std::vector<index_t>& shape,
               OutputFiles* files) {
  const std::string temporary = files->add(path);
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  std::size_t count = 1;
  for (const std::size_t size : sizes) count *= size;
  errno = 0;
  try {
    dump(temporary, data, sizes, count);
    // dump does not look whether its writes succeeded.
    if (read_npy_header(temporary).shape != shape) throw RunError("other shape read back");
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    cannot_write(path, errno);
  }
}

template Matrix<float> read_npy<float>(const std::string&, std::optional<index_t>*);
template Matrix<double> read_npy<double>(const std::string&, std::optional<index_t>*);
template Matrix<bf16> read_npy<bf16>(const std::string&, std::optional<index_t>*);
template Matrix<f16> read_npy<f16>(const std::string&, std::optional<index_t>*);
template void write_npy<float>(const std::string&, const float*, const std::vector<index_t>&,
                               OutputFiles*);
template void write_npy<double>(const std::string&, const double*, const std::vector<index_t>&,
                                OutputFiles*);
template void write_npy<bf16>(const std::string&, const bf16*, const std::vector<index_t>&,
                              OutputFiles*);
template void write_npy<f16>(const std::string&, const f16*, const std::vector<index_t>&,
                             OutputFiles*);

}  // namespace ioattn::tune
