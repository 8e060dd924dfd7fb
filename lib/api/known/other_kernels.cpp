#include "api/known/other_kernels.hpp"

#include <algorithm>

#include "api/checks/layer_checks.hpp"
#include "api/kernels_in_use.hpp"
#include "api/known/wisdom_state.hpp"
#include "machine/datapath.hpp"
#include "machine/machine.hpp"
#include "plan/blocks/pair_speed.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

std::string to_text(const TileShape& tile) {
  return std::string(name_of(tile.isa)) + "(" + std::to_string(tile.rows) + "x" +
         std::to_string(tile.cols) + ")";
}

// Whether two compute alike.
bool are_alike(const kernels::Kernels& a, const kernels::Kernels& b, DType dtype) {
  if (dtype == DType::f64) return a.f64 == b.f64;
  return dtype == DType::bf16 ? a.of_bf16 == b.of_bf16 : a.f32 == b.f32;
}

int vector_bits(Isa isa) {
  const bool is_avx512 = isa == Isa::avx512 || isa == Isa::avx512_bf16 || isa == Isa::avx512_amx;
  return is_avx512 ? 512 : isa == Isa::avx2 ? 256 : isa == Isa::neon ? 128 : 0;
}

// Measured on Zen 4, whose units take 256 bits: AVX2 beside AVX-512 where no lane is wasted.
constexpr double shorter_vectors = 1.06;

}  // namespace

double multiply_adds_per_second(const wisdom::Wisdom& known, Isa isa, DType dtype) {
  const wisdom::Rates* rates = known.rates_of(environment_of(isa), name_of(dtype));
  if (rates == nullptr || !check(*rates).is_ok()) return 0;
  return rates->multiply_adds / plan::product_speed(isa);
}

std::vector<const kernels::Kernels*> other_kernels(DType dtype) {
  std::vector<const kernels::Kernels*> others;
  const kernels::Kernels* own = nullptr;
  if (names_an_isa() || !selected_kernels(&own).is_ok()) return others;
  std::vector<const kernels::Kernels*> all = {own};
  for (const kernels::Kernels* one : kernels::all_kernels()) {
    if (one->isa == Isa::scalar || !machine::this_machine().isa.has(one->isa)) continue;
    const auto is_there = [&](const kernels::Kernels* other) {
      return are_alike(*one, *other, dtype);
    };
    if (std::none_of(all.begin(), all.end(), is_there)) all.push_back(one);
  }
  others.assign(all.begin() + 1, all.end());
  return others;
}

std::vector<const kernels::Kernels*> kernels_beside(const TileShape& tile, DType dtype) {
  std::vector<const kernels::Kernels*> others = other_kernels(dtype);
  const kernels::Kernels* own = nullptr;
  if (names_an_isa() || !selected_kernels(&own).is_ok()) return others;
  others.insert(others.begin(), own);
  std::erase_if(others, [&](const kernels::Kernels* one) { return one->tile(dtype) == tile; });
  return others;
}

bool are_measured(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                  DType dtype) {
  return multiply_adds_per_second(known, own.isa, dtype) > 0 &&
         multiply_adds_per_second(known, other.isa, dtype) > 0;
}

double slower_by(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                 DType dtype, int datapath_bits) {
  if (are_measured(known, own, other, dtype)) {
    return multiply_adds_per_second(known, own.isa, dtype) /
           multiply_adds_per_second(known, other.isa, dtype);
  }
  const double lanes = static_cast<double>(own.cols) / static_cast<double>(other.cols);
  const int of_own = vector_bits(own.isa), of_other = vector_bits(other.isa);
  if (datapath_bits == 0 || of_own == of_other || std::min(of_own, of_other) < datapath_bits) {
    return lanes;
  }
  // Both compute as many lanes at a time, the shorter by more instructions.
  return of_other < of_own ? shorter_vectors : 1 / shorter_vectors;
}

double slower_by(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                 DType dtype) {
  return slower_by(known, own, other, dtype, machine::datapath_bits());
}

Verdict check_kernels(const TileShape& own, bool own_only, const TileShape& of_plan, DType dtype) {
  if (of_plan == own) return {};
  const std::string plan = "the plan is for " + to_text(of_plan);
  if (own_only) return {Reason::kernel, plan + ", but IOATTN_ISA asks for " + to_text(own)};
  const kernels::Kernels* kernels = nullptr;
  const Status found = kernels_of(of_plan.isa, &kernels);
  if (!found.is_ok()) return {Reason::kernel, found.message()};
  const TileShape here = kernels->tile(dtype);
  if (here == of_plan && !is_emulated(of_plan.isa)) return {};
  return {Reason::kernel, plan + ", but calls use " + to_text(own)};
}

}  // namespace ioattn::api
