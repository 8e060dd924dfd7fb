#include "reference/gauge.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace ioattn_reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
Matrix<double> absolute(const Matrix<T>& a) {
  Matrix<double> b = convert<double>(a);
  for (double& value : b.values) value = std::fabs(value);
  return b;
}

Matrix<double> raised(Matrix<double> a, double floor) {
  for (double& value : a.values) value += floor;
  return a;
}

void scale_rows(Matrix<double>& a, const Matrix<double>& weight) {
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) a(i, j) *= weight(i, 0);
}

template <class A, class B>
void require_same_shape(const Matrix<A>& a, const Matrix<B>& b) {
  if (a.rows != b.rows || a.cols != b.cols) throw std::invalid_argument("shapes differ");
}

// |out - ref| as a double: 0 for equal infinities and for two NaN, infinity for one of either.
template <class Out, class T>
double distance(Out out, T ref) {
  const T value = static_cast<T>(out);
  if (value == ref || (std::isnan(value) && std::isnan(ref))) return 0;
  const double difference = static_cast<double>(std::fabs(value - ref));
  return difference < infinity ? difference : infinity;  // NaN is not less
}

}  // namespace

template <class Out, class T>
Gauge make_gauge(const LayerInputs<T>& in, const Forward<T>& fwd) {
  static_assert(std::numeric_limits<T>::digits > std::numeric_limits<Out>::digits);
  const double floor =
      static_cast<double>(std::numeric_limits<Out>::min() / std::numeric_limits<Out>::epsilon());
  const auto product = [floor](const Matrix<double>& a, const Matrix<double>& b) {
    return raised(multiply(a, b), floor);
  };
  const std::size_t n = in.A1.rows;
  const std::size_t m = in.A2.rows;
  const Matrix<double> A1 = absolute(in.A1);
  const Matrix<double> A2 = absolute(in.A2);
  const Matrix<double> A3 = absolute(in.A3);
  Matrix<double> X = absolute(in.X);
  for (double& value : X.values) value *= std::fabs(in.scale);
  const Matrix<double> Y = absolute(in.Y);
  const Matrix<double> dO = absolute(in.dO);
  Gauge gauge;

  const Matrix<double> A1_X = product(A1, X);
  const Matrix<double> scores = product(A1_X, transpose(A2));
  gauge.S = Matrix<double>(n, 1);
  gauge.L = Matrix<double>(n, 1);
  Matrix<double> weight(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    double& S = gauge.S(i, 0);
    for (std::size_t j = 0; j < m; ++j)
      if (in.sees(i, j)) S = std::max(S, scores(i, j));
    weight(i, 0) = 4 + 2 * S;
    gauge.L(i, 0) = 1 + S + static_cast<double>(std::fabs(fwd.L(i, 0)));
  }

  const Matrix<double> h = product(A3, Y);
  const Matrix<double> q = product(dO, transpose(h));
  Matrix<double> f = raised(convert<double>(fwd.f), floor);
  gauge.O = product(f, h);

  Matrix<double> p(n, m);
  for (std::size_t i = 0; i < n; ++i) {
    double v = floor;
    for (std::size_t k = 0; k < dO.cols; ++k) v += dO(i, k) * gauge.O(i, k);
    for (std::size_t j = 0; j < m; ++j) p(i, j) = f(i, j) * (q(i, j) + v) + floor;
  }
  scale_rows(gauge.O, weight);
  scale_rows(f, weight);
  scale_rows(p, weight);

  gauge.U = product(p, A2);
  gauge.dX = product(transpose(A1), gauge.U);
  for (double& value : gauge.dX.values) value *= std::fabs(in.scale);
  gauge.dA1 = product(gauge.U, transpose(X));
  gauge.dA2 = product(transpose(p), A1_X);
  gauge.W = product(transpose(f), dO);
  gauge.dA3 = product(gauge.W, transpose(Y));
  gauge.dY = product(transpose(A3), gauge.W);
  return gauge;
}

double pass_limit(std::size_t terms, std::size_t block) {
  if (block == 0) throw std::invalid_argument("pass_limit: a block has at least one term");
  const double blocks = std::ceil(static_cast<double>(terms) / static_cast<double>(block));
  return pass_ratio * std::max(1.0, (blocks + static_cast<double>(block)) / 8);
}

std::string to_string(const Worst& worst) {
  std::ostringstream text;
  text.precision(3);
  text << "T = " << worst.ratio << " at (" << worst.row << ", " << worst.col << "): ";
  text.precision(17);
  text << worst.out << " instead of " << worst.ref;
  return text.str();
}

template <class Out, class T>
Worst worst_ratio(const Out* out, std::size_t row_stride, const Matrix<T>& ref,
                  const Matrix<double>& unit) {
  require_same_shape(ref, unit);
  const double eps = static_cast<double>(std::numeric_limits<Out>::epsilon());
  Worst worst;
  for (std::size_t i = 0; i < ref.rows; ++i) {
    for (std::size_t j = 0; j < ref.cols; ++j) {
      const Out value = out[i * row_stride + j];
      const double error = distance(value, ref(i, j));
      double ratio = 0;
      if (error != 0) ratio = error / (eps * unit(i, j));
      if (std::isnan(ratio))
        ratio = infinity;  // the unit is infinite or not a number: nothing is sure
      if (ratio > worst.ratio)
        worst = {ratio, i, j, static_cast<double>(value), static_cast<double>(ref(i, j))};
    }
  }
  return worst;
}

template <class Out, class T>
Worst worst_ratio(const Matrix<Out>& out, const Matrix<T>& ref, const Matrix<double>& unit) {
  require_same_shape(out, ref);
  return worst_ratio(out.values.data(), out.cols, ref, unit);
}

template <class Out, class T>
double max_relative_error(const Out* out, std::size_t row_stride, const Matrix<T>& ref) {
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < ref.rows; ++i) {
    for (std::size_t j = 0; j < ref.cols; ++j) {
      error = std::max(error, distance(out[i * row_stride + j], ref(i, j)));
      const double magnitude = std::fabs(static_cast<double>(ref(i, j)));
      if (magnitude < infinity) size = std::max(size, magnitude);
    }
  }
  return error == 0 ? 0 : error / size;
}

template <class Out, class T>
double max_relative_error(const Matrix<Out>& out, const Matrix<T>& ref) {
  require_same_shape(out, ref);
  return max_relative_error(out.values.data(), out.cols, ref);
}

#define IOATTN_REFERENCE_INSTANTIATE(Out, T)                                                    \
  template Worst worst_ratio(const Out*, std::size_t, const Matrix<T>&, const Matrix<double>&); \
  template Worst worst_ratio(const Matrix<Out>&, const Matrix<T>&, const Matrix<double>&);      \
  template double max_relative_error(const Out*, std::size_t, const Matrix<T>&);                \
  template double max_relative_error(const Matrix<Out>&, const Matrix<T>&)

IOATTN_REFERENCE_INSTANTIATE(float, double);
IOATTN_REFERENCE_INSTANTIATE(float, long double);
IOATTN_REFERENCE_INSTANTIATE(double, double);
IOATTN_REFERENCE_INSTANTIATE(double, long double);
IOATTN_REFERENCE_INSTANTIATE(long double, long double);

template Gauge make_gauge<float>(const LayerInputs<double>&, const Forward<double>&);
template Gauge make_gauge<float>(const LayerInputs<long double>&, const Forward<long double>&);
template Gauge make_gauge<double>(const LayerInputs<long double>&, const Forward<long double>&);

}  // namespace ioattn_reference
