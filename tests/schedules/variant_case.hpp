#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/blocks/blocking.hpp"

namespace ioattn_test {

// A variant, or one as printed in the paper although it does not fit.
struct VariantCase {
  ioattn::Variant variant;
  bool literal = false;
};

inline std::string name_of_variant(const testing::TestParamInfo<VariantCase>& info) {
  const ioattn::Variant& v = info.param.variant;
  std::string name = std::string(name_of(v.pass)) + " " + to_text(v);
  std::replace(name.begin(), name.end(), ' ', '_');
  return info.param.literal ? name + "_literal" : name;
}

// All but those of passes over the keys, which have tests of their own.
inline std::vector<VariantCase> cases_of_queries() {
  std::vector<VariantCase> cases;
  for (const ioattn::Variant& v : ioattn::variants()) {
    if (v.pass == ioattn::Pass::backward_keys) continue;
    cases.push_back({v});
    if (v.schedule == ioattn::Schedule::paper_large) cases.push_back({v, true});
  }
  return cases;
}

}  // namespace ioattn_test
