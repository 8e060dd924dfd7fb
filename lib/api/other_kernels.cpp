#include "api/other_kernels.hpp"

#include <algorithm>

#include "api/layer_checks.hpp"
#include "api/session.hpp"
#include "api/wisdom_state.hpp"
#include "machine/machine.hpp"
#include "plan/pair_speed.hpp"

namespace ioattn::api {
namespace {

using wisdom::Reason;
using wisdom::Verdict;

std::string to_text(const TileShape& tile) {
  return std::string(name_of(tile.isa)) + "(" + std::to_string(tile.rows) + "x" +
         std::to_string(tile.cols) + ")";
}

// Whether two compute alike.
bool are_alike(const kernels::Kernels& a, const kernels::Kernels& b, DType dtype,
               bool may_be_pairs) {
  if (dtype == DType::f64) return a.f64 == b.f64;
  return dtype == DType::bf16 && may_be_pairs ? a.of_bf16 == b.of_bf16 : a.f32 == b.f32;
}

}  // namespace

double multiply_adds_per_second(const wisdom::Wisdom& known, Isa isa, DType dtype) {
  const wisdom::Rates* rates = known.rates_of(environment_of(isa), name_of(dtype));
  if (rates == nullptr || !check(*rates).is_ok()) return 0;
  return rates->multiply_adds / plan::product_speed(isa);
}

std::vector<const kernels::Kernels*> other_kernels(DType dtype, bool may_be_pairs) {
  std::vector<const kernels::Kernels*> others;
  const kernels::Kernels* own = nullptr;
  if (names_an_isa() || !selected_kernels(&own).is_ok()) return others;
  std::vector<const kernels::Kernels*> all = {own};
  for (const kernels::Kernels* one : kernels::all_kernels()) {
    if (one->isa == Isa::scalar || !machine::this_machine().isa.has(one->isa)) continue;
    const auto is_there = [&](const kernels::Kernels* other) {
      return are_alike(*one, *other, dtype, may_be_pairs);
    };
    if (std::none_of(all.begin(), all.end(), is_there)) all.push_back(one);
  }
  others.assign(all.begin() + 1, all.end());
  return others;
}

double slower_by(const wisdom::Wisdom& known, const TileShape& own, const TileShape& other,
                 DType dtype) {
  const double of_own = multiply_adds_per_second(known, own.isa, dtype);
  const double of_other = multiply_adds_per_second(known, other.isa, dtype);
  if (of_own > 0 && of_other > 0) return of_own / of_other;
  return static_cast<double>(own.cols) / static_cast<double>(other.cols);
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
