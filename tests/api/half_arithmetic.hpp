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
    ioattn_isa(0, &first_look_);  // asks for tiles, before IOATTN_ISA names another set
    const ioattn::IsaSet cpu = ioattn::machine::this_machine().isa;
    // If the CPU has no products of pairs, or this process no tiles.
    ioattn::Isa isa = Type::tiles ? ioattn::Isa::emulated_amx : ioattn::Isa::emulated_bf16;
    for (const ioattn::kernels::Kernels* each : ioattn::kernels::all_kernels()) {
      const bool tiles = each->isa == ioattn::Isa::avx512_amx;
      const bool pairs = ioattn::multiplies_pairs(each->isa);
      if (!cpu.has(each->isa) || tiles != Type::tiles || pairs != Type::pairs) continue;
      isa = each->isa;
      break;
    }
    setenv("IOATTN_ISA", ioattn::name_of(isa), 1);
  }

 private:
  std::int32_t first_look_ = 0;
};

// Products of pairs on every instruction set that has them.
class PairAccuracy : public IsaVariable {
 protected:
  static void SetUpTestSuite() { ioattn_isa(0, &first_look_); }  // as above

  static std::vector<ioattn::Isa> of_pairs() {
    std::vector<ioattn::Isa> all = {ioattn::Isa::emulated_bf16, ioattn::Isa::emulated_amx};
    const ioattn::IsaSet cpu = ioattn::machine::this_machine().isa;
    for (const ioattn::kernels::Kernels* each : ioattn::kernels::all_kernels())
      if (ioattn::multiplies_pairs(each->isa) && cpu.has(each->isa)) all.push_back(each->isa);
    return all;
  }

 private:
  static inline std::int32_t first_look_ = 0;
};

}  // namespace ioattn_test
