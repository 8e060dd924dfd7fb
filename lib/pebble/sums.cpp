#include "pebble/sums.hpp"

namespace ioattn::pebble {

Node node_of(Value value, Role role, index_t i, index_t j, index_t term) {
  return {value, role, static_cast<std::int32_t>(i), static_cast<std::int32_t>(j),
          static_cast<std::int32_t>(term)};
}

void add_sum(const Node& of, Tree tree, Cdag* graph, Entry* entry) {
  Node node = of;
  node.role = Role::sum;
  const std::vector<node_t>& terms = entry->terms;
  if (tree == Tree::chain) {
    entry->partial = {terms.front()};
    for (std::size_t t = 1; t < terms.size(); ++t) {
      node.term = static_cast<std::int32_t>(t);
      entry->partial.push_back(graph->add(node, std::vector{entry->partial.back(), terms[t]}));
    }
    entry->root = entry->partial.back();
    return;
  }
  std::vector<node_t> level = terms;
  while (level.size() > 1) {
    std::vector<node_t> next;
    for (std::size_t t = 0; t + 1 < level.size(); t += 2) {
      ++node.term;
      next.push_back(graph->add(node, std::vector{level[t], level[t + 1]}));
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  entry->root = level.front();
}

Cdag product_cdag(index_t n, index_t k, index_t m, Tree tree) {
  Cdag graph;
  std::vector<node_t> a, b;
  for (index_t i = 0; i < n * k; ++i)
    a.push_back(graph.add(node_of(Value::A1, Role::input, i / k, i % k), {}));
  for (index_t i = 0; i < k * m; ++i)
    b.push_back(graph.add(node_of(Value::A2, Role::input, i / m, i % m), {}));
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < m; ++j) {
      Entry entry;
      for (index_t t = 0; t < k; ++t) {
        const std::vector<node_t> parents = {a[static_cast<std::size_t>(i * k + t)],
                                             b[static_cast<std::size_t>(t * m + j)]};
        entry.terms.push_back(graph.add(node_of(Value::S, Role::product, i, j, t), parents));
      }
      add_sum(node_of(Value::S, Role::sum, i, j), tree, &graph, &entry);
      graph.add_output(entry.root);
    }
  }
  return graph;
}

}  // namespace ioattn::pebble
