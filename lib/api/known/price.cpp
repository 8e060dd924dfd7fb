#include "api/known/price.hpp"

#include "machine/machine.hpp"
#include "plan/blocks/pair_speed.hpp"

namespace ioattn::api {
namespace {

plan::Price assumed_price(const std::string& isa_name, DType dtype) {
  Isa isa{};
  const bool by_pairs = dtype == DType::bf16 && parse_isa(isa_name, &isa) && multiplies_pairs(isa);
  return plan::assumed_price(machine::this_machine().vendor, by_pairs);
}

// Estimates count multiply-adds of pairs by vectors, whoever makes them.
double vector_adds_per_tile_add(const std::string& isa_name) {
  Isa isa{};
  if (!parse_isa(isa_name, &isa)) return 1;
  return plan::word_speed(isa) / plan::product_speed(isa);
}

}  // namespace

KnownPrice price_from(const wisdom::Wisdom& wisdom, const wisdom::Environment& environment,
                      DType dtype) {
  KnownPrice known;
  known.price = assumed_price(environment.isa, dtype);
  const wisdom::Rates* rates = wisdom.rates_of(environment, name_of(dtype));
  if (rates == nullptr) {
    known.wisdom = {wisdom::Reason::absent,
                    std::string("the rates of ") + name_of(dtype) + " were not measured"};
    return known;
  }
  known.wisdom = check(*rates);
  if (known.wisdom.is_ok()) {
    const double multiply_adds = rates->multiply_adds * vector_adds_per_tile_add(environment.isa);
    known.price = plan::measured_price(rates->word_seconds * multiply_adds,
                                       rates->inner_word_seconds * multiply_adds);
  }
  return known;
}

}  // namespace ioattn::api
