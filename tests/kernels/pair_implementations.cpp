#include "kernels/pair_implementations.hpp"

#include "kernels/registry.hpp"
#include "kernels/trapped_tiles.hpp"
#include "machine/machine.hpp"
#include "schedules/odd_tile.hpp"

namespace ioattn_test {
namespace {

using namespace ioattn;

void add(std::initializer_list<Isa> isas, std::vector<PairImplementation>* list) {
  IsaSet cpu = machine::this_machine().isa;
  if (trap_tiles()) cpu.add(Isa::avx512_amx);
  for (const Isa isa : isas) {
    const kernels::Kernels* const each = kernels::find_kernels(isa);
    if (each == nullptr || !cpu.has(isa)) continue;
    list->push_back({name_of(isa), each->of_bf16->pairs_of_bf16, each->of_bf16->tile.cols});
    if (const kernels::Kernels* const halves = each->in_halves) {
      list->push_back({name_of(isa) + std::string("_in_halves"), halves->of_bf16->pairs_of_bf16,
                       halves->of_bf16->tile.cols});
    }
  }
}

}  // namespace

std::vector<PairImplementation> pair_implementations() {
  const auto& odd = odd_tile_of_pairs();
  std::vector<PairImplementation> list = {{"odd", odd.pairs_of_bf16, odd.tile.cols}};
  add({Isa::avx512_bf16, Isa::emulated_bf16}, &list);
  for (const PairImplementation& by_tiles : tile_implementations()) list.push_back(by_tiles);
  return list;
}

std::vector<PairImplementation> weighing_implementations() {
  std::vector<PairImplementation> list;
  for (const PairImplementation& each : pair_implementations())
    if (each.pairs->weights != nullptr) list.push_back(each);
  return list;
}

std::vector<PairImplementation> few_implementations() {
  std::vector<PairImplementation> list;
  for (const PairImplementation& each : pair_implementations())
    if (each.pairs->few_product != nullptr) list.push_back(each);
  return list;
}

std::vector<PairImplementation> gradient_implementations() {
  std::vector<PairImplementation> list;
  for (const PairImplementation& each : pair_implementations())
    if (each.pairs->gradients != nullptr) list.push_back(each);
  return list;
}

std::vector<PairImplementation> tile_implementations() {
  std::vector<PairImplementation> list;
  add({Isa::avx512_amx, Isa::emulated_amx}, &list);
  return list;
}

}  // namespace ioattn_test
