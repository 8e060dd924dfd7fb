#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/oracle.hpp"

// Seeded inputs that are hard in different ways, and two checks of gradients that need no
// reference.
namespace ioattn_reference {

enum class Kind {
  normal,         // every factor about standard normal, scores of standard deviation about 1
  large_scores,   // scores near +1000 or, every other row, -1000: e^s overflows or is 0 even in
                  // double
  uniform,        // X = 0: every key has the same weight, all terms of a sum have the same size
  one_hot,        // scores of standard deviation about 1000: one key has all the weight
  cancelling,     // scores, and q against v, are small differences of large terms
  tiny,           // dX near 2^-90, its factors far below 1
  zeros,          // all inputs 0
  small_integers  // sparse; O, L and all gradients are exact integers in any order of summation
};

inline constexpr Kind all_kinds[] = {Kind::normal,  Kind::large_scores,  Kind::uniform,
                                     Kind::one_hot, Kind::cancelling,    Kind::tiny,
                                     Kind::zeros,   Kind::small_integers};

const char* name_of(Kind kind);  // as spelled above

// Which of A1 [n,d], A2 and A3 [m,d] are one matrix.
enum class Ties {
  none,
  keys_values,  // A2 = A3, the paper's cross-attention
  all           // A1 = A2 = A3, its self-attention; needs n = m
};

struct CaseShape {
  std::size_t n = 0, m = 0, d = 0, dv = 0;
  Ties ties = Ties::none;
};

// Every value is exact in float, so that one case serves float and double. The same arguments give
// the same values with every compiler. std::invalid_argument if the ties do not fit the sizes.
//
// small_integers: scores are multiples of 2^14 with one largest in each row, so f is exactly 0 or 1
// in every type, p = 0, and dX = dA1 = dA2 = 0. They, and all sums, stay exact in float for m
// <= 256 and d <= 64 (with d = 0 no key is the largest, and nothing is promised).
LayerInputs<double> make_case(Kind kind, const CaseShape& shape, std::uint64_t seed);

// A matrix of about standard normal values (sums of four uniform ones), exact in float.
Matrix<double> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed);

// The gradient of <O, dO> by one input, e.g. &LayerInputs<long double>::X, by central differences.
// `step` is that of PyTorch's gradcheck, whose tolerances are atol = 1e-5, rtol = 1e-3. Forms O
// twice for every entry. Of tied inputs only the named one moves.
Matrix<long double> finite_difference(LayerInputs<long double> in,
                                      Matrix<long double> LayerInputs<long double>::*input,
                                      long double step = 1e-6L);

// The adjoint identity <dO, J V> = <J^T dO, V> for a direction V of X, where J^T dO is dX.
struct AdjointIdentity {
  double forward = 0;  // <dO, J V>
  double reverse = 0;  // <dX, V>
  double scale = 0;    // sum |dX||V|, what a relative gap is relative to

  double gap() const;  // |forward - reverse| / scale; infinity if a side is not a number
};

// `dX` is the gradient under test, [d,d]; `direction` [d,d].
AdjointIdentity adjoint_identity(const LayerInputs<double>& in, const Matrix<double>& direction,
                                 const Matrix<double>& dX);

}  // namespace ioattn_reference
