#pragma once

#include <cstddef>
#include <string>

#include "reference/oracle.hpp"

// How far from the reference an output may be. The ratio of Netlib's BLAS tests (dblat3.f, DMMCH),
//
//     T_ij = |out_ij - ref_ij| / (eps * unit_ij),      eps = that of the output's type,
//
// where unit is the same product of absolute values as the output, times 4 + 2 S_i: the softmax
// turns an absolute error of a score, which is relative to S_i = max_j (|A1| |X| |A2|^T)_ij, into a
// relative error of f (once directly, once through L), and 4 stands for the roundings outside the
// scores. With hb = |A3||Y|, fb = f, qb = |dO| hb^T, vb = rowsum(|dO| o (fb hb)), Pb = fb o (qb +
// vb), W = diag(4+2S):
//
//     O    W (fb hb)                  dX   |A1|^T (W Pb) |A2|
//     L    1 + S_i + |L_i|            dA1  (W Pb) |A2| |X|^T        dA2  (W Pb)^T (|A1| |X|)
//     dY   |A3|^T (W fb)^T |dO|       dA3  (W fb)^T |dO| |Y|^T
//     dh   (W fb)^T |dO|                                      (dh = f^T dO is W in Gauge::W)
//
// An entry of dX, dY, dA2 or dA3 sums over rows i, each with an error of its own size: W therefore
// stands inside the sum. (The largest S_i for all rows would also be a bound, but one row of large
// scores would then excuse any error of the others.) hb and vb take absolute values all the way
// down, not |h| and |v|: where h or v cancel, their rounding errors do not.
//
// Under a mask S_i takes the keys that are seen; a scale counts as part of X, and into dX.
//
// Underflow is absolute: every one of these products is raised by min/eps (min: the smallest normal
// number), so that eps * unit admits a factor that was flushed to zero.
//
// T judges sums in blocks of at most 256 terms with fresh accumulators; for other sums see
// pass_limit.
//
// T alone is a weak judge of long sums: their terms cancel, those of unit do not. In the case of
// tests/data/minilm a plain float evaluation has T = 1e-4 in dX and T = 0.02 in O, and T = 16 would
// admit errors of 2.7 % (dX) and 0.46 % (O) of the largest entry in the median entry. Where the
// reference is not itself the remainder of a cancellation (kinds uniform and tiny, normal at sizes
// from about 16, real data), hold max_relative_error against relative_limit too.
namespace ioattn_reference {

struct Gauge {
  Matrix<double> S;  // [n,1], S_i
  Matrix<double> O, L, U, W, dX, dY, dA1, dA2, dA3;
};

// The units for outputs of type Out (float or double); T is the type of the reference, which must
// be wider than Out.
template <class Out, class T>
Gauge make_gauge(const LayerInputs<T>& in, const Forward<T>& fwd);

inline constexpr double pass_ratio = 16;  // Netlib's

// In units of eps, for max_relative_error: see above.
inline constexpr double relative_limit = 64;

// The largest T that passes. A sum of `terms` terms in blocks of `block` errs by up to (block +
// terms/block) eps/2 of its absolute terms, and roundings that all go the same way (equal terms) do
// come near it. A schedule whose blocks are fixed by the size of the cache (the paper's) is granted
// (block + terms/block)/8 times pass_ratio where that is more. It multiplies, as the error of a
// score does: at S = 205 and 2048 terms one by one, 16 (1 + S + |L| + 2048/8) would be less than
// half of the error.
double pass_limit(std::size_t terms, std::size_t block);

// The entry with the largest ratio. Not-a-number where the reference is a number, or the reverse,
// is an infinite ratio; the same infinity on both sides is none.
struct Worst {
  double ratio = 0;
  std::size_t row = 0;
  std::size_t col = 0;
  double out = 0;
  double ref = 0;

  bool passes(double limit = pass_ratio) const { return ratio <= limit; }
};

// "T = 17.3 at (3, 5): 0.25 instead of 0.5"
std::string to_string(const Worst& worst);

// `out` has the shape of ref, unit innermost stride and `row_stride` elements between rows.
// std::invalid_argument if the shapes of ref and unit differ.
template <class Out, class T>
Worst worst_ratio(const Out* out, std::size_t row_stride, const Matrix<T>& ref,
                  const Matrix<double>& unit);

// The same for a dense matrix; std::invalid_argument if shapes differ.
template <class Out, class T>
Worst worst_ratio(const Matrix<Out>& out, const Matrix<T>& ref, const Matrix<double>& unit);

// max |out - ref| / max |ref|; infinity if an entry is not a number or the shapes cannot be
// compared with 0 in the denominator (0 if out is 0 too).
template <class Out, class T>
double max_relative_error(const Out* out, std::size_t row_stride, const Matrix<T>& ref);

template <class Out, class T>
double max_relative_error(const Matrix<Out>& out, const Matrix<T>& ref);

}  // namespace ioattn_reference
