#include "api/price.hpp"

namespace ioattn::api {

KnownPrice price_from(const wisdom::Wisdom& wisdom, const wisdom::Environment& environment,
                      DType dtype) {
  KnownPrice known;
  const wisdom::Rates* rates = wisdom.rates_of(environment, name_of(dtype));
  if (rates == nullptr) {
    known.wisdom = {wisdom::Reason::absent,
                    std::string("the rates of ") + name_of(dtype) + " were not measured"};
    return known;
  }
  known.wisdom = check(*rates);
  if (known.wisdom.is_ok()) {
    known.price = plan::measured_price(rates->word_seconds * rates->multiply_adds,
                                       rates->inner_word_seconds * rates->multiply_adds);
  }
  return known;
}

}  // namespace ioattn::api
