#include "machine/datapath.hpp"

#include "machine/machine.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define IOATTN_X86 1
#endif

namespace ioattn::machine {

int datapath_bits(std::string_view vendor, unsigned leaf_eax) {
  constexpr unsigned bits_256 = 1u << 2, bits_512 = 1u << 3;
  if (vendor != "AuthenticAMD" && vendor != "HygonGenuine") return 0;
  return (leaf_eax & bits_512) == 0 && (leaf_eax & bits_256) != 0 ? 256 : 0;
}

int datapath_bits() {
  static const int bits = [] {  // a hypervisor takes its time to answer
    unsigned eax = 0;
#ifdef IOATTN_X86
    unsigned ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid(0x8000001Au, &eax, &ebx, &ecx, &edx) == 0) eax = 0;
#endif
    return datapath_bits(this_machine().vendor, eax);
  }();
  return bits;
}

}  // namespace ioattn::machine
