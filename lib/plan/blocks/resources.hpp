#pragma once

#include <string>

#include "base/isa.hpp"
#include "plan/blocks/fast_memory.hpp"
#include "theory/schedule_cost.hpp"

namespace ioattn::plan {

// What a plan may take of the machine, whatever the problem.
struct Resources {
  std::string level = "L2";         // deciding level; "M" when M was given by the user
  index_t M = 0;                    // words of fast memory
  index_t outer_M = 0;              // of L3, for blocks of passes that L2 is too small for; 0: none
  index_t memory_limit_bytes = -1;  // scratch that the plan may allocate; -1 = O(n d), never n x m
  TileShape tile;
  bool tile_only = false;  // the caller asks for it: wisdom may not name other kernels
  Price price;             // what plans are compared by

  bool operator==(const Resources&) const = default;
  // Whether blocks may be held in outer_M.
  bool has_outer() const { return outer_M > M && !price.of_words(); }
  index_t words_at(const std::string& of) const { return of == level ? M : outer_M; }

 protected:
  // Numbers that M, or outer_M, has room for: a resident one of 16 bits is in f32.
  FastMemory memory_for(DType dtype, bool outer) const {
    const index_t words = theory::resident_words(dtype);
    return {(outer ? outer_M : M) / words, outer ? M / words : 0, price, size_of(dtype)};
  }
};

}  // namespace ioattn::plan
