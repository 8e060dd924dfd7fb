#pragma once

#include "plan/objective.hpp"
#include "wisdom/wisdom.hpp"

namespace ioattn::api {

// Types that have rates of their own: all, each at its own number.
inline constexpr DType types_of_rates[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
static_assert(types_of_rates[static_cast<int>(DType::f32)] == DType::f32 &&
              types_of_rates[static_cast<int>(DType::f64)] == DType::f64 &&
              types_of_rates[static_cast<int>(DType::bf16)] == DType::bf16 &&
              types_of_rates[static_cast<int>(DType::f16)] == DType::f16);

// What plans for time are compared by, and where that is from.
struct KnownPrice {
  plan::Price price;
  wisdom::Verdict wisdom = {wisdom::Reason::off, ""};  // fine if the price was measured

  const char* origin() const { return wisdom.is_ok() ? "measured" : "assumed"; }
};
KnownPrice price_from(const wisdom::Wisdom& wisdom, const wisdom::Environment& environment,
                      DType dtype);

}  // namespace ioattn::api
