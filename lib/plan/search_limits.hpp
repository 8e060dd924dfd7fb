#pragma once

#include <cstddef>

#include "base/types.hpp"

// What searches look at, of either problem.
namespace ioattn::plan {

inline constexpr std::size_t most_candidates = 200;
inline constexpr double hopeless = 3;  // times the estimate's time

// In eighths of the memory of a level; the rest is left to what else wants to be there.
inline constexpr index_t parts_of_memory[] = {8, 6, 4, 3, 2};

}  // namespace ioattn::plan
