#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "api/half_call.hpp"

// Relative L2 errors of results in 16 bits.
namespace ioattn_test {

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// At most so many times the error of the exact results, rounded.
template <class S>
void expect_rounded(const char* name, double times, const std::vector<S>& out,
                    const std::vector<double>& exact) {
  std::vector<double> rounded;
  for (const double x : exact) rounded.push_back(double(number(element<S>(float(x)))));
  const double ours = distance(numbers(out), exact), least = distance(rounded, exact);
  EXPECT_GT(ours, 0) << name;
  EXPECT_LE(ours, times * least) << name;
}

// At most so many times the error of a model's results.
template <class S>
void expect_as_near(const char* name, double times, const std::vector<S>& out,
                    const std::vector<double>& model, const std::vector<double>& exact) {
  const double ours = distance(numbers(out), exact), least = distance(model, exact);
  EXPECT_GT(ours, 0) << name;
  EXPECT_LE(ours, times * least) << name;
}

}  // namespace ioattn_test
