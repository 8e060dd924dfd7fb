#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace ioattn::machine {

// The next line of a file; false if there is none or it cannot be read. Other than std::getline it
// lets std::bad_alloc through: a line that found no memory is no missing line.
bool next_line(std::istream* file, std::string* line);

// Without blanks, tabs and a carriage return at either end.
std::string_view trimmed(std::string_view text);

// The first line of a file; nullopt if there is none.
std::optional<std::string> first_line(const std::string& path);

// Decimal digits alone; nullopt beyond 64 bits.
std::optional<index_t> parse_integer(std::string_view text);

// Decimal digits, or hexadecimal ones after 0x; nullopt beyond 31 bits.
std::optional<int> parse_small(std::string_view text);

// parse_integer with an optional k, M or G, of either case (binary multiples), behind the digits.
std::optional<index_t> parse_bytes(std::string_view text);

// No cache that can be meant is larger: such a number is damaged or mistyped.
constexpr index_t cache_bytes_limit = index_t{1} << 40;

}  // namespace ioattn::machine
