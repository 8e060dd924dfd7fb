#include "base/isa.hpp"

#include <cstring>

namespace ioattn {
namespace {
constexpr const char* names[isa_count] = {"scalar",     "avx2",        "avx512",
                                          "neon",       "avx512_bf16", "emulated_bf16",
                                          "avx512_amx", "emulated_amx"};
}  // namespace

const char* name_of(Isa isa) { return names[static_cast<int>(isa)]; }

bool parse_isa(const char* name, Isa* isa) {
  for (int i = 0; i < isa_count; ++i) {
    if (std::strcmp(name, names[i]) == 0) {
      *isa = static_cast<Isa>(i);
      return true;
    }
  }
  return false;
}

}  // namespace ioattn
