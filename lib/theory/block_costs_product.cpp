#include <algorithm>

#include "theory/block_costs.hpp"

namespace ioattn::theory {

IoCost product_cost(index_t n1, index_t k, index_t n2, const ProductBlocks& blocks,
                    bool accumulate) {
  const index_t i = std::min(blocks.rows, n1), j = std::min(blocks.cols, n2);
  const index_t q = std::min(blocks.depth, k);
  const index_t result = n1 * n2;
  IoCost cost;
  cost.reads = (blocks.keep_a ? n1 * k + k * n2 * ceil_div(n1, blocks.rows)
                              : product_reads(n1, k, n2, blocks.rows, blocks.cols)) +
               (accumulate ? result : 0);
  cost.writes = result;
  cost.created = accumulate ? 0 : result;
  cost.footprint = i * j + q * j + i * (blocks.keep_a ? k : q);
  return cost;
}

}  // namespace ioattn::theory
