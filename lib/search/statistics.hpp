#pragma once

#include <vector>

// Of times, whose noise is one-sided and has outliers: the least is a lucky shot, the mean is
// anybody's.
namespace ioattn::search {

double median(std::vector<double> values);  // 0 of none

// Median absolute deviation from the median; times 1.4826 it estimates a standard deviation.
double mad(const std::vector<double>& values);
inline constexpr double deviations_per_mad = 1.4826;

// A mean with its standard error, of values that are cut to within 2.5 deviations of the median.
struct Mean {
  double value = 0, error = 0;
};
Mean winsorised_mean(std::vector<double> values);

}  // namespace ioattn::search
