#pragma once

#include <charconv>
#include <initializer_list>
#include <string_view>
#include <type_traits>

// Values by their texts: nothing may stand before or behind them. Of other texts these functions
// return false and leave *value as it was.
namespace ioattn {

// What std::from_chars takes: no blanks, no plus sign, no prefix of the base.
template <class T>
bool parse_number(std::string_view text, T* value, [[maybe_unused]] int base = 10) {
  const char* end = text.data() + text.size();
  T number{};
  std::from_chars_result result;
  if constexpr (std::is_floating_point_v<T>) {
    result = std::from_chars(text.data(), end, number);
  } else {
    result = std::from_chars(text.data(), end, number, base);
  }
  if (result.ec != std::errc() || result.ptr != end) return false;
  *value = number;
  return true;
}

// By name_of.
template <class T>
bool parse_name(std::string_view name, std::initializer_list<T> candidates, T* value) {
  for (const T candidate : candidates) {
    if (name != name_of(candidate)) continue;
    *value = candidate;
    return true;
  }
  return false;
}
// Among the enumerators 0 ... count - 1.
template <class T>
bool parse_name(std::string_view name, int count, T* value) {
  for (int i = 0; i < count; ++i)
    if (parse_name(name, {static_cast<T>(i)}, value)) return true;
  return false;
}

}  // namespace ioattn
