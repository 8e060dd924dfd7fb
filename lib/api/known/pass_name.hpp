#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/schedule.hpp"

// How a pass is told in a file of wisdom: "forward", or the names of the gradients of a set with +
// between them. No set is the forward pass.
namespace ioattn::api {

template <class Set, class Named, std::size_t count>
std::string name_of_pass(const std::optional<Set>& set, const Named (&gradients)[count]) {
  if (!set) return name_of(Pass::forward);
  std::string name;
  for (const Named& gradient : gradients)
    if ((*set).*gradient.wanted) name += (name.empty() ? "" : "+") + std::string(gradient.name);
  return name;
}

// What stands between signs of plus, if only nothing.
inline std::vector<std::string> names_of_set(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// False unless each gradient is there once, in their order, and nothing else.
template <class Set, class Named, std::size_t count>
bool parse_pass(const std::string& name, const Named (&gradients)[count], std::optional<Set>* set) {
  set->reset();
  if (name == name_of(Pass::forward)) return true;
  Set parsed;
  for (const std::string& one : names_of_set(name))
    for (const Named& gradient : gradients)
      if (one == gradient.name) parsed.*gradient.wanted = true;
  if (name.empty() || name_of_pass(std::optional(parsed), gradients) != name) return false;
  *set = parsed;
  return true;
}

}  // namespace ioattn::api
