#pragma once

#include "api/half_call.hpp"
#include "api/isa_variable.hpp"
#include "kernels/registry.hpp"
#include "machine/machine.hpp"

// How products of 16-bit numbers are made: of f32, on the best ISA that does so, or of pairs of
// terms as they are stored, perhaps by tiles.
namespace ioattn_test {

template <class Storage, bool of_pairs, bool by_tiles = false>
struct Arithmetic {
  using S = Storage;
  static constexpr bool pairs = of_pairs, tiles = by_tiles;
};

// Calls use that arithmetic while a test runs.
template <class Type>
class HalfTest : public IsaVariable {
 protected:
  void SetUp() override {
    IsaVariable::SetUp();
    const ioattn::IsaSet cpu = ioattn::machine::this_machine().isa;
    // If the CPU has no products of pairs, or was not asked for its tiles.
    ioattn::Isa isa = Type::tiles ? ioattn::Isa::emulated_amx : ioattn::Isa::emulated_bf16;
    if (Type::tiles && cpu.has(ioattn::Isa::avx512_amx)) isa = ioattn::Isa::avx512_amx;
    for (const ioattn::kernels::Kernels* each : ioattn::kernels::all_kernels()) {
      if (Type::tiles) break;
      if (!cpu.has(each->isa) || ioattn::multiplies_pairs(each->isa) != Type::pairs) continue;
      isa = each->isa;
      break;
    }
    setenv("IOATTN_ISA", ioattn::name_of(isa), 1);
  }
};

}  // namespace ioattn_test
