#pragma once

#include <array>
#include <optional>

#include "theory/schedule_cost.hpp"

// Attention without softmax is a product of matrices, and re-associated none of its intermediates
// has n x m entries: O = A1 ((X (A2^T A3)) Y), dX = ((A1^T dO) Y^T) (A3^T A2). It escapes every
// bound that counts pairs.
namespace ioattn::theory {

inline constexpr index_t linear_least_M = 3;
inline constexpr int linear_products = 4;

// Tiles of the four products, in the order in which they run: forward K = A2^T A3, X K, (X K) Y, O;
// backward A1^T dO, (A1^T dO) Y^T, A3^T A2, dX.
using LinearBlocks = std::array<ProductBlocks, linear_products>;
// Those with the fewest words in a fast memory of M; none below linear_least_M.
std::optional<LinearBlocks> linear_blocks(Pass pass, const LayerShape& shape, index_t M);

// Pass::forward or Pass::backward; a product's factors are read as two matrices, tied or not.
ScheduleCost linear_cost(Pass pass, const LayerShape& shape, const LinearBlocks& blocks);

}  // namespace ioattn::theory
