#include "machine/tile_registers.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define IOATTN_X86_LINUX 1
#endif

namespace ioattn::machine {
namespace {

// XCR0's bits of the tiles, the latter one also the number of what arch_prctl() is asked for.
constexpr int configuration_state = 17, data_state = 18;
constexpr int arch_get_xcomp_perm = 0x1022, arch_req_xcomp_perm = 0x1023;

constexpr std::uint64_t bit(int number) { return std::uint64_t{1} << number; }

std::string text_of(int error) {
  if (error == ENOSPC) return "a signal stack is too small for them";
  return std::generic_category().message(error);
}

bool names_another(const char* wanted) {
  return wanted != nullptr && *wanted != '\0' && std::strcmp(wanted, name_of(Isa::avx512_amx)) != 0;
}

#ifdef IOATTN_X86_LINUX
int ask_kernel(int code, std::uint64_t argument) {
  return syscall(SYS_arch_prctl, code, argument) == 0 ? 0 : errno;
}
#endif

}  // namespace

TileSystem this_tile_system() {
  TileSystem system;
#ifdef IOATTN_X86_LINUX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    constexpr int amx_bf16 = 22, amx_tile = 24;
    system.has_instructions = (edx >> amx_bf16 & edx >> amx_tile & 1u) != 0;
  }
  constexpr int osxsave = 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> osxsave & 1u) != 0) {
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    system.saved_states = std::uint64_t{edx} << 32 | eax;
  }
  system.arch_prctl = ask_kernel;
#endif
  return system;
}

std::string request_tiles(const TileSystem& system, IsaSet cpu, const char* wanted) {
  if (!system.has_instructions) return "this CPU has no AMX-BF16";
  if (!cpu.has(Isa::avx512_bf16)) return "this CPU has no AVX512-BF16";
  constexpr std::uint64_t states = bit(configuration_state) | bit(data_state);
  if ((system.saved_states & states) != states) return "the kernel does not save tiles";
  if (names_another(wanted)) return "IOATTN_ISA named another instruction set at the first call";
  const int refused = system.arch_prctl(arch_req_xcomp_perm, data_state);
  if (refused != 0) return "the kernel refuses tiles to this process: " + text_of(refused);
  // To believe a sandbox that answers everything would end in an illegal instruction.
  std::uint64_t granted = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(&granted);
  if (system.arch_prctl(arch_get_xcomp_perm, address) != 0 || (granted & bit(data_state)) == 0) {
    return "the kernel does not confirm that this process may use tiles";
  }
  return "";
}

}  // namespace ioattn::machine
