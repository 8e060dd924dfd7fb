#include "reference/cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

namespace ioattn_reference {
namespace {

// The engine's output is fixed by the C++ standard, the distributions of <random> are not.
class Source {
 public:
  explicit Source(std::uint64_t seed) : engine_(seed) {}

  // About normal: four uniform values of 16 bits, 2^15 subtracted from each; standard
  // deviation 1.155.
  double normal() {
    const std::uint64_t bits = engine_();
    double sum = 0;
    for (unsigned shift = 0; shift < 64; shift += 16)
      sum += static_cast<double>((bits >> shift) & 0xffffU) - 32767.5;
    return sum / 32768;
  }
  Matrix<double> normal(std::size_t rows, std::size_t cols) {
    Matrix<double> a(rows, cols);
    for (double& value : a.values) value = normal();
    return a;
  }
  // One entry in four is -2, -1, 1 or 2, the others 0.
  Matrix<double> sparse(std::size_t rows, std::size_t cols) {
    constexpr double values[] = {-2, -1, 1, 2};
    Matrix<double> a(rows, cols);
    for (double& value : a.values) {
      const std::uint64_t bits = engine_();
      value = bits % 4 == 0 ? values[(bits >> 2) % 4] : 0;
    }
    return a;
  }

 private:
  std::mt19937_64 engine_;
};

void scale(Matrix<double>& a, double factor) {
  for (double& value : a.values) value *= factor;
}

void apply_ties(LayerInputs<double>& in, Ties ties) {
  if (ties != Ties::none) in.A3 = in.A2;
  if (ties == Ties::all) in.A1 = in.A2;
}

LayerInputs<double> normal_case(const CaseShape& shape, Source& source) {
  const auto [n, m, d, dv, ties] = shape;
  LayerInputs<double> in = {source.normal(n, d), source.normal(m, d),  source.normal(m, d),
                            source.normal(d, d), source.normal(d, dv), source.normal(n, dv)};
  // A score is a sum of d^2 products, an entry of h one of d.
  scale(in.X, 1 / static_cast<double>(std::max<std::size_t>(d, 1)));
  scale(in.Y, 1 / std::sqrt(static_cast<double>(std::max<std::size_t>(d, 1))));
  return in;
}

// Column 0 of A1 and A2 and entry (0, 0) of X add +-1000 to all scores of a row.
void enlarge_scores(LayerInputs<double>& in) {
  if (in.X.rows == 0) return;
  for (std::size_t k = 0; k < in.X.rows; ++k) in.X(0, k) = in.X(k, 0) = 0;
  in.X(0, 0) = 1000;
  for (std::size_t j = 0; j < in.A2.rows; ++j) in.A2(j, 0) = 1;
  for (std::size_t i = 0; i < in.A1.rows; ++i) in.A1(i, 0) = i % 2 == 0 ? 1 : -1;
}

// Columns 2t and 2t + 1 of X are the same and those of A2 nearly opposite, so that s is a small
// difference. The rows of A3 share a large part, so that those of h do, and q - v is one too. Where
// A3 = A2 the shared part is opposite in A2's two columns: it does not spoil the first difference.
void make_cancelling(LayerInputs<double>& in, Ties ties, Source& source) {
  for (std::size_t k = 1; k < in.X.rows; k += 2) {
    for (std::size_t row = 0; row < in.X.rows; ++row) in.X(row, k) = in.X(row, k - 1);
    const double shared = 64 * source.normal();
    for (std::size_t j = 0; j < in.A2.rows; ++j) {
      if (ties != Ties::none) in.A2(j, k - 1) += shared;
      in.A2(j, k) = -in.A2(j, k - 1) + source.normal() / 64;
      in.A3(j, k - 1) += shared;
      in.A3(j, k) -= shared;
    }
  }
}

LayerInputs<double> integer_case(const CaseShape& shape, Source& source) {
  const auto [n, m, d, dv, ties] = shape;
  LayerInputs<double> in = {source.sparse(n, d), source.sparse(m, d),  source.sparse(m, d),
                            source.sparse(d, d), source.sparse(d, dv), source.sparse(n, dv)};
  if (d == 0) return in;
  // Column 0 is for the largest score alone: ..., -2, -1, 1, 2, ..., different in every row of A2.
  const auto different = [](std::size_t j, std::size_t count) {
    const std::size_t half = count / 2;
    const double value = static_cast<double>(j) - static_cast<double>(half);
    return value < 0 ? value : value + 1;
  };
  for (std::size_t j = 0; j < m; ++j) in.A2(j, 0) = different(j, m);
  for (std::size_t i = 0; i < n; ++i) in.A1(i, 0) = i % 3 == 0 ? -1 : 1;
  apply_ties(in, ties);
  for (std::size_t k = 0; k < d; ++k) in.X(0, k) = in.X(k, 0) = 0;

  // s = 2^14 (w A1_i0 A2_j0 + other_ij): keys differ by at least 2^14 if w > 2 max |other|, and
  // e^(-2^14) is 0 even in long double.
  const Matrix<double> other = multiply(multiply(in.A1, in.X), transpose(in.A2));
  double w = 0;
  for (const double value : other.values) w = std::max(w, std::fabs(value));
  in.X(0, 0) = 2 * w + 1;
  scale(in.X, 0x1p14);
  return in;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::normal: return "normal";
    case Kind::large_scores: return "large_scores";
    case Kind::uniform: return "uniform";
    case Kind::one_hot: return "one_hot";
    case Kind::cancelling: return "cancelling";
    case Kind::tiny: return "tiny";
    case Kind::zeros: return "zeros";
    case Kind::small_integers: return "small_integers";
  }
  return "unknown";
}

LayerInputs<double> make_case(Kind kind, const CaseShape& shape, std::uint64_t seed) {
  if (shape.ties == Ties::all && shape.n != shape.m)
    throw std::invalid_argument("A1 = A2 needs n = m");
  Source source(seed);
  if (kind == Kind::small_integers) return integer_case(shape, source);

  LayerInputs<double> in = normal_case(shape, source);
  switch (kind) {
    case Kind::large_scores: enlarge_scores(in); break;
    case Kind::uniform: scale(in.X, 0); break;
    case Kind::one_hot: scale(in.X, 1000); break;
    case Kind::cancelling: make_cancelling(in, shape.ties, source); break;
    case Kind::tiny:
      for (Matrix<double>* a : {&in.A1, &in.A2, &in.A3, &in.X}) scale(*a, 0x1p-10);
      scale(in.Y, 0x1p-20);
      scale(in.dO, 0x1p-40);
      break;
    case Kind::zeros:
      for (Matrix<double>* a : {&in.A1, &in.A2, &in.A3, &in.X, &in.Y, &in.dO}) scale(*a, 0);
      break;
    case Kind::normal:
    case Kind::small_integers: break;
  }
  apply_ties(in, shape.ties);
  return convert<double>(convert<float>(in));
}

Matrix<double> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  return Source(seed).normal(rows, cols);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): `in` is changed, through `moved`
Matrix<long double> finite_difference(LayerInputs<long double> in,
                                      Matrix<long double> LayerInputs<long double>::*input,
                                      long double step) {
  Matrix<long double>& moved = in.*input;
  Matrix<long double> gradient(moved.rows, moved.cols);
  for (std::size_t k = 0; k < moved.values.size(); ++k) {
    const long double value = moved.values[k];
    moved.values[k] = value + step;
    const long double above = inner(forward(in).O, in.dO);
    moved.values[k] = value - step;
    const long double below = inner(forward(in).O, in.dO);
    moved.values[k] = value;
    gradient.values[k] = (above - below) / (2 * step);
  }
  return gradient;
}

double AdjointIdentity::gap() const {
  const double difference = std::fabs(forward - reverse);
  if (difference == 0) return 0;
  return difference < std::numeric_limits<double>::infinity()
             ? difference / scale
             : std::numeric_limits<double>::infinity();
}

AdjointIdentity adjoint_identity(const LayerInputs<double>& in, const Matrix<double>& direction,
                                 const Matrix<double>& dX) {
  LayerInputs<double> along = in;
  for (Matrix<double>* a : {&along.A1, &along.A2, &along.A3, &along.Y}) scale(*a, 0);
  along.X = direction;
  AdjointIdentity identity;
  identity.forward = inner(in.dO, tangent(in, forward(in), along));
  identity.reverse = inner(dX, direction);
  for (std::size_t k = 0; k < dX.values.size(); ++k)
    identity.scale += std::fabs(dX.values[k] * direction.values[k]);
  return identity;
}

}  // namespace ioattn_reference
