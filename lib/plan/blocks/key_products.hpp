#pragma once

#include "base/schedule.hpp"

namespace ioattn::plan {

// What a sum of a pass over the keys runs over.
enum class Over { queries, keys };

// Of the products of a pass over the keys: score(depth) of those that make tiles of scores and of
// q, sum(over, width) of those that take one; d columns of queries and keys, v of values.
template <class Score, class Sum>
double over_key_products(KeyPassKind kind, index_t d, index_t v, const Score& score,
                         const Sum& sum) {
  double total = score(d);
  if (kind.makes_p()) total += score(v);
  if (kind.of_keys()) total += sum(Over::queries, d);
  if (kind.of_values()) total += sum(Over::queries, v);
  if (kind.queries) total += sum(Over::keys, d);
  return total;
}

}  // namespace ioattn::plan
