#pragma once

#include <string>
#include <string_view>

#include "base/isa.hpp"
#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::plan {

// What is executed: at the deciding level a schedule with its blocks, inside it panels of the
// register tile. A value: printable, parseable, comparable.
struct Plan {
  std::string level = "L2";  // the level whose M the blocks fit in: "L1", "L2", "L3" or "M"
  Schedule schedule = Schedule::row_stream;
  Blocks blocks;
  TileShape tile;

  bool operator==(const Plan&) const = default;
};

// "L2:row_stream(form=g,r=448,c=64,rho=64,w=64,o=64,a=64,b=64) > reg:avx2(6x16)"; tiles of a
// product are rows x cols x depth, "a" after them is keep_a: "q=96x256x64a".
std::string to_text(const Plan& plan);
// Reads exactly what to_text prints. On failure returns false and says why.
bool parse_plan(std::string_view text, Plan* plan, std::string* error);

// "96x256x64", rows x cols x depth; "a" at the end is keep_a.
std::string to_text(const ProductBlocks& product);
bool parse_product(std::string_view text, ProductBlocks* product);

}  // namespace ioattn::plan
