#include <charconv>
#include <cstdio>

#include "base/checked_size.hpp"
#include "tune/command_error.hpp"
#include "tune/files/npy.hpp"

namespace ioattn::tune {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

[[noreturn]] void reject(const std::string& why) { throw UsageError(why); }

constexpr const char* needed = "; '<f4', '<f8', '<f2', '|V2' or '<u2' (bf16) needed";

// A dtype of the file, whose bytes might end a message or move a terminal's cursor.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 32)) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[5] = {c};
    if (byte < ' ' || byte > '~') std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    result += escape;
  }
  return result;
}

// The Python dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class DictionaryParser {
 public:
  explicit DictionaryParser(std::string_view text) : text_(text) {}

  void parse(NpyHeader* header) {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      parse_value(key, header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) malformed();
    if (!has_descr_ || !has_order_ || !has_shape_) {
      reject("the .npy header lacks " + std::string(!has_descr_   ? "'descr'"
                                                    : !has_order_ ? "'fortran_order'"
                                                                  : "'shape'"));
    }
  }

 private:
  [[noreturn]] static void malformed() { reject("the .npy header is malformed"); }

  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n' ||
                              text_.front() == '\t' || text_.front() == '\r')) {
      text_.remove_prefix(1);
    }
  }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }

  std::string quoted() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) malformed();
    std::string result(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return result;
  }

  static void once(bool* seen) {
    if (*seen) malformed();
    *seen = true;
  }

  void parse_value(const std::string& key, NpyHeader* header) {
    if (key == "descr") {
      once(&has_descr_);
      parse_descr(header);
    } else if (key == "fortran_order") {
      once(&has_order_);
      skip_space();
      header->fortran_order = text_.substr(0, 4) == "True";
      const std::size_t length = header->fortran_order ? 4 : 5;
      if (!header->fortran_order && text_.substr(0, 5) != "False") malformed();
      text_.remove_prefix(length);
    } else if (key == "shape") {
      once(&has_shape_);
      parse_shape(header);
    } else {
      malformed();
    }
  }

  void parse_descr(NpyHeader* header) {
    skip_space();
    if (!text_.empty() && text_.front() == '[') reject(std::string("a structured dtype") + needed);
    const std::string descr = quoted();
    if (descr == "<f4" || descr == "=f4") {
      header->dtype = DType::f32;
    } else if (descr == "<f8" || descr == "=f8") {
      header->dtype = DType::f64;
    } else if (descr == "<f2" || descr == "=f2") {
      header->dtype = DType::f16;
    } else if (descr == "|V2" || descr == "<V2") {
      header->dtype = DType::bf16;
    } else if (descr == "<u2" || descr == "=u2") {
      header->dtype = DType::bf16;
      header->is_raw = true;
    } else if (descr.starts_with(">")) {
      reject("dtype '" + printable(descr) + "' is big-endian" + needed);
    } else {
      reject("dtype '" + printable(descr) + "' is not supported" + needed);
    }
  }

  void parse_shape(NpyHeader* header) {
    expect('(');
    while (!accept(')')) {
      skip_space();
      index_t size = 0;
      const auto [rest, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error == std::errc::result_out_of_range) reject("a size in the shape overflows");
      if (error != std::errc() || size < 0) malformed();
      text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
      header->shape.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

// A little-endian number of `count` bytes.
std::size_t number(std::string_view bytes, std::size_t at, std::size_t count) {
  std::size_t value = 0;
  for (std::size_t i = count; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  }
  return value;
}

void check_size(const NpyHeader& header, std::uint64_t file_size) {
  CheckedSize bytes = size_of(header.dtype);
  // A 0 among the sizes must not hide an overflow of the others.
  for (const index_t size : header.shape) bytes = bytes * CheckedSize(size == 0 ? 1 : size);
  if (bytes.overflow()) reject("the shape overflows: its bytes do not fit in 64 bits");
  std::uint64_t expected = static_cast<std::uint64_t>(bytes.value());
  for (const index_t size : header.shape) expected = size == 0 ? 0 : expected;
  const std::uint64_t found = file_size - header.data_offset;
  if (found == expected) return;
  reject(std::string(found < expected ? "truncated" : "too long") + ": the shape needs " +
         std::to_string(expected) + " bytes of data, the file has " + std::to_string(found));
}

}  // namespace

NpyHeader parse_npy_header(std::string_view bytes, std::uint64_t file_size) {
  if (bytes.substr(0, magic.size()) != magic) reject("not a .npy file");
  if (bytes.size() < magic.size() + 2) reject("truncated in the .npy header");
  const unsigned major = static_cast<unsigned char>(bytes[6]);
  const unsigned minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    reject("version " + std::to_string(major) + "." + std::to_string(minor) +
           " of the .npy format is unknown");
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t start = magic.size() + 2 + length_bytes;
  if (bytes.size() < start) reject("truncated in the .npy header");
  const std::size_t length = number(bytes, magic.size() + 2, length_bytes);
  if (length > npy_header_limit - start) reject("the .npy header is too long");
  if (bytes.size() < start + length) reject("truncated in the .npy header");

  NpyHeader header;
  header.data_offset = start + length;
  DictionaryParser(bytes.substr(start, length)).parse(&header);
  check_size(header, file_size);
  return header;
}

}  // namespace ioattn::tune
