#include "base/isa.hpp"

#include "base/parse.hpp"

namespace ioattn {
namespace {
constexpr const char* names[isa_count] = {"scalar",     "avx2",        "avx512",
                                          "neon",       "avx512_bf16", "emulated_bf16",
                                          "avx512_amx", "emulated_amx"};
}  // namespace

const char* name_of(Isa isa) { return names[static_cast<int>(isa)]; }

bool parse_isa(std::string_view name, Isa* isa) { return parse_name(name, isa_count, isa); }

}  // namespace ioattn
