#pragma once

#include <cstdint>
#include <string>

#include "base/isa.hpp"

namespace ioattn::machine {

// What the tiles of AMX hang on, beside their instructions.
struct TileSystem {
  bool has_instructions = false;   // CPUID: AMX-TILE and AMX-BF16
  std::uint64_t saved_states = 0;  // XCR0: what the kernel saves of a thread; 0 = unknown
  // The system call: 0, or an errno.
  int (*arch_prctl)(int code, std::uint64_t argument) = nullptr;
};
TileSystem this_tile_system();

// Asks the kernel to let this process use tiles, if anything can come of it on a CPU of these
// instruction sets and `wanted`, the value of IOATTN_ISA or null, names no other one. "" if it may,
// else why not, in a few words. What is granted is every thread's and stays, over fork() too:
// signal stacks that are too small for tiles are refused from then on.
std::string request_tiles(const TileSystem& system, IsaSet cpu, const char* wanted);

}  // namespace ioattn::machine
