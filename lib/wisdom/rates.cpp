#include "wisdom/rates.hpp"

#include <cstdio>

namespace ioattn::wisdom {
namespace {

// From an emulated CPU to one that has not been built yet.
constexpr double least_multiply_adds = 1e5, most_multiply_adds = 1e13;
constexpr double least_seconds = 1e-13, most_seconds = 1e-5;

Verdict wrong(const char* what, double value, double least, double most) {
  char text[128];
  std::snprintf(text, sizeof text, "%s: %g is not from %g to %g", what, value, least, most);
  return {Reason::rates, text};
}

}  // namespace

Verdict check(const Rates& rates) {
  if (!(rates.multiply_adds >= least_multiply_adds && rates.multiply_adds <= most_multiply_adds)) {
    return wrong("multiply_adds_per_second", rates.multiply_adds, least_multiply_adds,
                 most_multiply_adds);
  }
  if (!(rates.word_seconds >= least_seconds && rates.word_seconds <= most_seconds)) {
    return wrong("seconds_per_word", rates.word_seconds, least_seconds, most_seconds);
  }
  if (!(rates.inner_word_seconds >= least_seconds && rates.inner_word_seconds <= most_seconds)) {
    return wrong("seconds_per_inner_word", rates.inner_word_seconds, least_seconds, most_seconds);
  }
  return {};
}

}  // namespace ioattn::wisdom
