#pragma once

#include "pebble/attention_cdag.hpp"

// Pieces that graphs of products are made of.
namespace ioattn::pebble {

Node node_of(Value value, Role role, index_t i, index_t j, index_t term = 0);

// Adds the sum of the terms of an entry to a graph: nodes of the matrix and the place of `of`.
void add_sum(const Node& of, Tree tree, Cdag* graph, Entry* entry);

}  // namespace ioattn::pebble
