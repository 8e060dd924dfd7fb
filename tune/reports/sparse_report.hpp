#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace ioattn::tune {

// For matrices in Matrix Market files, A1, and A2 and X if they are given: the paper's formula for
// sparse attention, the worst case over matrices with as many entries, beside bounds for these
// matrices. With d > 0 the first is also taken as the mask of attention with dense operands of d
// columns.
void print_sparse(const std::vector<std::string>& files, index_t d, index_t M, bool json);

}  // namespace ioattn::tune
