#pragma once

#include <vector>

#include "base/types.hpp"

namespace ioattn_test {

using ioattn::index_t;

struct Moved {
  index_t reads = 0, writes = 0;
  index_t words() const { return reads + writes; }
};

// One multiply-add, c += a b, of words by number.
struct MultiplyAdd {
  int c, a, b;
};

// What a fast memory of M words moves that gives up the word whose next use is farthest; one that
// would have to be written is kept a little longer. By word: whether it is in slow memory at the
// start, whether it has to be at the end.
Moved moved_by_farthest_use(const std::vector<MultiplyAdd>& trace,
                            const std::vector<char>& in_memory, const std::vector<char>& output,
                            index_t M);

}  // namespace ioattn_test
