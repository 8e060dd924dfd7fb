#include "theory/sparse_bounds.hpp"

#include <algorithm>
#include <cmath>

#include "theory/segments.hpp"

namespace ioattn::theory {
namespace {

// The branches without their M: numerators over M and over sqrt(M).
struct Branches {
  double large, small;

  explicit Branches(const SparseCounts& counts) {
    const double a = std::min(counts.a1, counts.a2), ax = std::min(counts.a1_x, counts.x_a2);
    large = a * a + a * counts.x;
    small = a * std::sqrt(counts.scores) + std::sqrt(a * counts.x * ax);
  }
};

}  // namespace

double paper_sparse_formula(const SparseCounts& counts, index_t M) {
  const Branches branches(counts);
  return std::min(branches.large / double(M), branches.small / std::sqrt(double(M)));
}

double paper_sparse_dividing_point(const SparseCounts& counts) {
  const Branches branches(counts);
  if (branches.small == 0) return 0;
  const double root = branches.large / branches.small;
  return root * root;
}

double sparse_products_bound(const SparseCounts& counts, const SparseProducts& products,
                             index_t M) {
  const double written = products.scores_written ? counts.scores : 0;
  const double compulsory = counts.a1 + (products.tied ? 0 : counts.a2) + counts.x + written;
  // Both products share A1 X; where they share A1 = A2 too, their names of X and of scores do not
  // add up as squares: sqrt(2).
  const double norm = products.tied ? std::sqrt(2.0) : 1;
  const double created = products.intermediate + counts.scores - written;
  return std::max(compulsory, colour_bound(products.multiply_adds, norm, created, double(M)));
}

}  // namespace ioattn::theory
