#pragma once

#include <string_view>

namespace ioattn::machine {

// Bits of a vector that the CPU's units compute at a time, where it tells: AMD's do (CPUID
// 0x8000001A). Zen 4 takes vectors of 512 bits by halves. 0: it does not, or as many as its
// registers have.
int datapath_bits(std::string_view vendor, unsigned leaf_eax);
int datapath_bits();  // of this CPU

}  // namespace ioattn::machine
