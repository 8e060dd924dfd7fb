#include "pebble/cdag.hpp"

namespace ioattn::pebble {

const char* name_of(Value value) {
  static constexpr const char* names[value_count] = {
      "A1",    "A2",  "A3",    "X",       "Y",          "dO",     "O",       "LSE",
      "S",     "K",   "G",     "h",       "scores",     "weight", "row_sum", "f",
      "q",     "f_q", "delta", "f_delta", "difference", "p",      "U",       "T",
      "Z_sum", "Z",   "O_sum", "dX",      "dA2",        "dA3",    "dA",      "W"};
  return names[static_cast<int>(value)];
}

std::string to_text(const Node& node) {
  std::string text = std::string(name_of(node.value)) + "[" + std::to_string(node.i) + "," +
                     std::to_string(node.j) + "]";
  if (node.role == Role::product) text += " product " + std::to_string(node.term);
  if (node.role == Role::sum) text += " sum to " + std::to_string(node.term);
  return text;
}

int level_of(const Node& node) {
  if (node.role == Role::input) return 0;
  if (node.value == Value::S || node.value == Value::K) return 1;
  return node.value == Value::scores ? 2 : 0;
}

node_t Cdag::add(const Node& node, std::span<const node_t> parents) {
  nodes_.push_back(node);
  parents_.insert(parents_.end(), parents.begin(), parents.end());
  first_parent_.push_back(parents_.size());
  return size() - 1;
}

std::vector<std::vector<node_t>> Cdag::children() const {
  std::vector<std::vector<node_t>> lists(nodes_.size());
  for (node_t v = 0; v < size(); ++v)
    for (const node_t parent : parents(v)) lists[index(parent)].push_back(v);
  return lists;
}

}  // namespace ioattn::pebble
