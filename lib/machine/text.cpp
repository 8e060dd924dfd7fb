#include "machine/text.hpp"

#include <fstream>

#include "base/checked_size.hpp"
#include "base/parse.hpp"

namespace ioattn::machine {

bool next_line(std::istream* file, std::string* line) {
  try {
    file->exceptions(std::ios::badbit);
    return static_cast<bool>(std::getline(*file, *line));
  } catch (const std::ios_base::failure&) {
    return false;
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!next_line(&file, &line)) return std::nullopt;
  return line;
}

std::optional<index_t> parse_integer(std::string_view text) {
  index_t value = 0;
  if (!parse_number(text, &value) || text.front() == '-') return std::nullopt;
  return value;
}

std::optional<int> parse_small(std::string_view text) {
  const bool hexadecimal = text.substr(0, 2) == "0x";
  if (hexadecimal) text.remove_prefix(2);
  int value = 0;
  if (!parse_number(text, &value, hexadecimal ? 16 : 10) || value < 0) return std::nullopt;
  return value;
}

std::optional<index_t> parse_bytes(std::string_view text) {
  index_t unit = 1;
  if (!text.empty()) {
    const char suffix = text.back();
    if (suffix == 'k' || suffix == 'K') unit = index_t{1} << 10;
    if (suffix == 'm' || suffix == 'M') unit = index_t{1} << 20;
    if (suffix == 'g' || suffix == 'G') unit = index_t{1} << 30;
    if (unit != 1) text.remove_suffix(1);
  }
  const std::optional<index_t> count = parse_integer(text);
  if (!count) return std::nullopt;
  const CheckedSize bytes = CheckedSize(*count) * unit;
  if (bytes.overflow()) return std::nullopt;
  return bytes.value();
}

}  // namespace ioattn::machine
