#include "kernels/implementations.hpp"

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "kernels/registry.hpp"
#include "machine/machine.hpp"
#include "schedules/odd_tile.hpp"

namespace ioattn_test {

const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> all = [] {
    const ioattn::IsaSet cpu = ioattn::machine::this_machine().isa;
    std::vector<Implementation> list;
    for (const ioattn::kernels::Kernels* kernels : ioattn::kernels::all_kernels()) {
      if (kernels->f32->tile.isa != kernels->isa) continue;  // those of a lesser one
      list.push_back({name_of(kernels->isa), kernels->f32, kernels->f64, cpu.has(kernels->isa)});
    }
    list.push_back({"odd3x5", &odd_tile<float>(), &odd_tile<double>(), true});
    return list;
  }();
  return all;
}

const std::vector<Implementation>& variants() {
  static const std::vector<Implementation> all = [] {
    std::vector<Implementation> list = implementations();
    for (const Implementation& each : implementations()) {
      if (each.f32->tile.isa != ioattn::Isa::avx512) continue;
      const ioattn::kernels::Kernels& halves =
          *ioattn::kernels::find_kernels(ioattn::Isa::avx512)->in_halves;
      list.push_back({each.name + "_in_halves", halves.f32, halves.f64, each.available});
    }
    return list;
  }();
  return all;
}

std::ostream& operator<<(std::ostream& stream, const Implementation& implementation) {
  const ioattn::TileShape f32 = implementation.f32->tile, f64 = implementation.f64->tile;
  return stream << implementation.name << ", tiles f32 " << f32.rows << "x" << f32.cols << ", f64 "
                << f64.rows << "x" << f64.cols;
}

index_t test_every() {
  const char* const every = std::getenv("IOATTN_TEST_EVERY");
  return every == nullptr ? 1 : std::max<index_t>(1, std::atol(every));
}

}  // namespace ioattn_test
