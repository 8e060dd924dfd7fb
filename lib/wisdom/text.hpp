#pragma once

#include <string>
#include <string_view>

#include "wisdom/wisdom.hpp"

// Wisdom as JSON: what is known, by environment, one record a line.
//
//   {"format":"ioattn wisdom","schema":1,"environments":[
//   {"library":...,"kernels":...,"isa":...,"cpu":...,"caches":...,"records":[
//   {"op":"forward","dtype":"f32","d":64,"dv":64,"log2_n":10,"log2_m":10,"plan":...},
//   ...
//   ]}]}
//
// An environment may have "rates" as well, of two of one type the later:
//
//   [{"dtype":"f32","multiply_adds_per_second":...,"seconds_per_word":...,
//     "seconds_per_inner_word":...,"threads":2,"date":...}, ...]
namespace ioattn::wisdom {

inline constexpr const char* format = "ioattn wisdom";
inline constexpr int schema = 1;
inline constexpr std::size_t largest_text = std::size_t{8} << 20;  // bytes

// All or nothing: on any failure *wisdom is untouched. Throws nothing but std::bad_alloc.
Verdict parse(std::string_view text, Wisdom* wisdom);

// Fields of later versions among them; records in a fixed order. May be larger than parse takes.
std::string to_text(const Wisdom& wisdom);

// A JSON string.
std::string quoted(std::string_view text);

}  // namespace ioattn::wisdom
