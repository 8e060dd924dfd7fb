#include "search/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace ioattn::search {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double mad(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances(values);
  for (double& value : distances) value = std::fabs(value - middle);
  return median(std::move(distances));
}

Mean winsorised_mean(std::vector<double> values) {
  if (values.empty()) return {};
  const double middle = median(values);
  const double reach = 2.5 * deviations_per_mad * mad(values);
  const double count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (double& value : values) sum += value = std::clamp(value, middle - reach, middle + reach);
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, count > 1 ? std::sqrt(squares / (count - 1) / count) : HUGE_VAL};
}

}  // namespace ioattn::search
