#include "cli/support/npy_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <regex>
#include <stdexcept>

namespace ioattn_cli_test {
namespace {

constexpr char magic[] = "\x93NUMPY";

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<double> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

}  // namespace

std::string npy_header(const std::string& dictionary, int version, std::size_t alignment) {
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  std::size_t total = start + dictionary.size() + 1;
  total = (total + alignment - 1) / alignment * alignment;
  const std::size_t length = total - start;
  std::string bytes(magic);
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i)
    bytes += static_cast<char>(length >> (8 * i) & 255);
  return bytes + dictionary + std::string(length - dictionary.size() - 1, ' ') + "\n";
}

std::string npy_dictionary(const std::string& descr, bool fortran_order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

template <class T>
std::string npy_matrix(std::size_t rows, std::size_t cols, const std::vector<T>& values) {
  const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(cols) + ")";
  return npy_header(npy_dictionary(sizeof(T) == 4 ? "<f4" : "<f8", false, shape)) +
         bytes_of(values);
}
template std::string npy_matrix(std::size_t, std::size_t, const std::vector<float>&);
template std::string npy_matrix(std::size_t, std::size_t, const std::vector<double>&);

namespace {

// Finite numbers with so many bits of fraction: f16 or bf16.
std::vector<double> values_of_16_bits(const std::string& data, int fraction) {
  const int bias = (1 << (14 - fraction)) - 1;
  std::vector<double> values;
  for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
    const int bits = static_cast<unsigned char>(data[i]) | static_cast<unsigned char>(data[i + 1])
                                                               << 8;
    const int exponent = (bits & 0x7fff) >> fraction, mantissa = bits & ((1 << fraction) - 1);
    const int digits = exponent == 0 ? mantissa : mantissa | 1 << fraction;
    const double size = std::ldexp(digits, std::max(exponent, 1) - bias - fraction);
    values.push_back((bits & 0x8000) != 0 ? -size : size);
  }
  return values;
}

}  // namespace

NpyArray parse_npy(const std::string& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string header = bytes.substr(0, end);
  std::smatch found;
  const std::regex form("\\{'descr': '([^']*)', 'fortran_order': False, 'shape': \\(([0-9, ]*)\\)");
  if (bytes.rfind(magic, 0) != 0 || end == std::string::npos || (end + 1) % 64 != 0 ||
      !std::regex_search(header, found, form)) {
    throw std::runtime_error("not a .npy file in C order");
  }
  NpyArray array;
  array.descr = found[1];
  const std::string shape = found[2];
  const std::regex number("[0-9]+");
  std::size_t count = 1;
  for (std::sregex_iterator it(shape.begin(), shape.end(), number), last; it != last; ++it) {
    array.shape.push_back(std::stoul(it->str()));
    count *= array.shape.back();
  }
  array.data = bytes.substr(end + 1);
  if (array.descr == "<f2" || array.descr == "|V2") {
    array.values = values_of_16_bits(array.data, array.descr == "<f2" ? 10 : 7);
    return array;
  }
  if (array.descr != "<f4" && array.descr != "<f8") throw std::runtime_error("other dtype");
  array.values =
      array.descr == "<f4" ? values_of<float>(array.data) : values_of<double>(array.data);
  if (array.values.size() != count) throw std::runtime_error("the shape is not that of the data");
  return array;
}

}  // namespace ioattn_cli_test
