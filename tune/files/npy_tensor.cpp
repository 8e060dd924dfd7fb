#include "tune/files/npy_tensor.hpp"

#include <cstring>
#include <fstream>

#include "base/half.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"

namespace ioattn::tune {
namespace {

// To nearest; f64 by way of f32 where T has 16 bits.
template <class T, class Source>
T converted(Source source) {
  if constexpr (std::is_same_v<T, Source>) {
    return source;
  } else {
    return to_storage<T>(static_cast<Compute<T>>(to_compute(source)));
  }
}

// The elements of the file one by one, in its order.
template <class T, class Source>
std::vector<T> elements(std::istream& file, std::size_t count) {
  std::vector<T> values(count);
  for (T& value : values) {
    char bytes[sizeof(Source)];
    Source source;
    file.read(bytes, sizeof bytes);
    std::memcpy(&source, bytes, sizeof source);
    value = converted<T>(source);
  }
  return values;
}

// The same elements in C order.
template <class T>
std::vector<T> from_fortran_order(const std::vector<T>& values, const std::vector<index_t>& shape) {
  std::vector<T> ordered(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t rest = i, place = 0;
    std::size_t stride = values.size();
    for (const index_t size : shape) {
      stride /= static_cast<std::size_t>(size);
      place += rest % static_cast<std::size_t>(size) * stride;
      rest /= static_cast<std::size_t>(size);
    }
    ordered[place] = values[i];
  }
  return ordered;
}

}  // namespace

template <class T>
Tensor<T> read_npy_tensor(const std::string& path) {
  const NpyHeader header = read_npy_header(path);
  if (header.is_raw && !std::is_same_v<T, bf16>) {
    throw UsageError(path + ": dtype '<u2' is read as bf16 alone (--dtype bf16)");
  }
  const std::vector<index_t>& shape = header.shape;
  if (shape.size() < 2 || shape.size() > 4) {
    throw UsageError(path + ": an array of rank " + std::to_string(shape.size()) +
                     "; rank 2 to 4 needed");
  }
  Tensor<T> tensor;
  tensor.rank = shape.size();
  tensor.cols = shape.back();
  tensor.rows = shape[shape.size() - 2];
  if (shape.size() > 2) tensor.heads = shape[shape.size() - 3];
  if (shape.size() > 3) tensor.batch = shape[0];
  const auto count =
      static_cast<std::size_t>(tensor.batch * tensor.heads * tensor.rows * tensor.cols);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(header.data_offset));
  tensor.data = with_dtype(header.dtype,
                           [&](auto source) { return elements<T, decltype(source)>(file, count); });
  if (!file) throw UsageError(path + ": cannot be read");
  if (header.fortran_order) tensor.data = from_fortran_order(tensor.data, shape);
  return tensor;
}

template Tensor<float> read_npy_tensor<float>(const std::string&);
template Tensor<double> read_npy_tensor<double>(const std::string&);
template Tensor<bf16> read_npy_tensor<bf16>(const std::string&);
template Tensor<f16> read_npy_tensor<f16>(const std::string&);

}  // namespace ioattn::tune
