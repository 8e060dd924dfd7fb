#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/isa.hpp"
#include "base/sdpa.hpp"

namespace ioattn::plan {

// What is executed for an SDPA problem: block sizes at the deciding level.
struct SdpaPlan {
  std::string level = "L2";
  SdpaBlocks blocks;  // of phases that do not run: 0
  TileShape tile;

  bool operator==(const SdpaPlan&) const = default;
};

// Of the blocks those that a set of gradients takes; no set: the forward pass. rows.o and rows.w
// are of the phase "delta", which runs without "row_stream" where dQ is made on the way of
// "col_stream" or "tile_fused".
SdpaBlocks blocks_taken(const SdpaBlocks& blocks, const std::optional<SdpaSet>& set);

// Whether these are all there: positive, in the form that SDPA takes.
bool has_blocks(const SdpaBlocks& blocks, const std::optional<SdpaSet>& set);

// The passes as plans (plan.hpp), and rows x columns of O and dO that phase "delta" reads at once:
// "L2:row_stream(...) > reg:avx2(6x16) ; L2:col_stream(...) > ... ; delta=512x64".
std::string to_text(const SdpaPlan& plan);

// Reads exactly what to_text prints of a plan of the same set. On failure returns false and says
// why.
bool parse_sdpa_plan(std::string_view text, const std::optional<SdpaSet>& set, SdpaPlan* plan,
                     std::string* error);

}  // namespace ioattn::plan
