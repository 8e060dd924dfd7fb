#include "pebble/attention_cdag.hpp"

#include <algorithm>

#include "base/checked_size.hpp"

namespace ioattn::pebble {

Status AttentionCdag::make(const Recipe& recipe, AttentionCdag* result) {
  const auto [n, m, d, e, tie, mask] = recipe.shape;
  if (std::min({n, m, d, e}) < 1 || recipe.t_rows < 0) {
    return Status::error(StatusCode::invalid_argument, "a graph needs sizes of at least 1");
  }
  if (tie == Tie::all && n != m) {
    return Status::error(StatusCode::invalid_argument, "A1 and A2 are one matrix: n has to be m");
  }
  if (mask.hides()) {
    return Status::error(StatusCode::unsupported, "graphs have no masks");
  }
  // No recipe has more than these: per pair 2 nodes a multiply-add of five widths and 8 functions.
  const index_t blocks = recipe.t_rows == 0 ? 1 : ceil_div(n, std::min(recipe.t_rows, n));
  const CheckedSize wide = CheckedSize(6) * (CheckedSize(d) + CheckedSize(e)) + CheckedSize(8);
  const CheckedSize nodes = CheckedSize(n) * m * wide +
                            (CheckedSize(n) + CheckedSize(m) + CheckedSize(blocks) * m) * d * wide;
  if (nodes.overflow() || nodes.value() > 8 * most_nodes) {
    return Status::error(StatusCode::size_overflow,
                         "the graph has more than %lld nodes, the most that are built",
                         static_cast<long long>(most_nodes));
  }
  AttentionCdag built;
  built.recipe_ = recipe;
  built.build();
  if (built.graph_.size() > most_nodes) {
    return Status::error(
        StatusCode::size_overflow, "the graph has %lld nodes, more than the %lld that are handled",
        static_cast<long long>(built.graph_.size()), static_cast<long long>(most_nodes));
  }
  *result = std::move(built);
  return Status::ok();
}

const Entry* AttentionCdag::find(Value value, index_t i, index_t j) const {
  const Matrix& of = matrix(value);
  if (i < 0 || j < 0 || i >= of.rows || j >= of.cols) return nullptr;
  return &of.entries[static_cast<std::size_t>(i * of.cols + j)];
}

}  // namespace ioattn::pebble
