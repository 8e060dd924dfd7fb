#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/mask.hpp"

// What the text forms of problems have in common.
namespace ioattn {

bool parse_size(std::string_view digits, index_t* value);
bool parse_scale(std::string_view digits, double* scale);
std::string shortest_text(double value);

// "causal", "causal-bottom-right", "keys-3:0". A mask that is aligned to the last query and key is
// placed once the sizes are known.
bool is_mask(std::string_view field);
bool parse_mask(std::string_view field, Mask* mask);
Mask placed_mask(const Mask& parsed, index_t n, index_t m);
// The field, or "none".
std::string mask_text(const Mask& mask, index_t n, index_t m);

// Comma-separated fields from `begin` on, each of another kind; false, and *error says why, if one
// is not known (its kind is 0 then), has no valid value or repeats another.
using ParseField = std::function<bool(std::string_view field, char* kind)>;
bool parse_fields(std::string_view text, std::size_t begin, const ParseField& parse,
                  const char* known_fields, std::string* error);

}  // namespace ioattn
