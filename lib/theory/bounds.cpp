#include "theory/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "theory/block_costs.hpp"

// Proofs and the derivations for dv != d: README.md of this folder. The names of the bounds are
// explained there.
namespace ioattn::theory {
namespace {

// As doubles: products of three sizes pass 2^63 long before a bound loses a word that matters.
struct Sizes {
  double n, m, d, e, M;
  double narrow;           // min(d, dv): disjoint paths through Y
  double longer, shorter;  // max(n, m), min(n, m)
  Tie tie;

  Sizes(const LayerShape& shape, index_t words)
      : n(double(shape.n)),
        m(double(shape.m)),
        d(double(shape.d)),
        e(double(shape.dv)),
        M(double(words)),
        narrow(std::min(d, e)),
        longer(std::max(n, m)),
        shorter(std::min(n, m)),
        tie(shape.tie) {}
};

// If rows * r + columns * c <= tau words, then r c <= tau^2 / block_constant(rows, columns).
double block_constant(double rows, double columns) { return 4 * rows * columns; }

// max over integers X >= 1 of X (pairs / Phi(X) - 1), where Phi bounds the pairs of a segment of X
// counted events: an r x c block of clean pairs within M + X words, or M words of pairs at the
// start and X / 2 that were written and read again. The third vertex of the polytope, M + X^2/c, is
// never the largest: it needs X > c/2 to pass the second and X < (c - M)/2 to pass the first.
double segment_bound(double pairs, double c, double M) {
  const auto value = [&](double x) {
    const double most = std::max((M + x) * (M + x) / c, M + x / 2);
    return x * (pairs / most - 1);
  };
  // The minimum of two functions with one peak each has one peak. It is negative beyond hi.
  double lo = 1, hi = std::max(1.0, std::floor(2 * (pairs - M)));
  for (int step = 0; step < 200 && hi - lo > 2; ++step) {
    const double third = std::floor((hi - lo) / 3);
    if (value(lo + third) < value(hi - third)) {
      lo += third;
    } else {
      hi -= third;
    }
  }
  return std::max({value(lo), value(std::floor((lo + hi) / 2)), value(hi)});
}

double positive(double words) { return std::max(0.0, words); }

// Without queries that see no key and keys that no query sees, whose rows need not be read.
LayerShape visible_part(const LayerShape& shape) {
  if (!shape.mask.hides()) return shape;
  LayerShape part = shape;
  part.n = seeing_queries(shape).size();
  part.m = seen_keys(shape).size();
  return part;
}

}  // namespace

AlgorithmClass class_of(Pass pass, Schedule schedule) {
  const bool sums_in_blocks =
      schedule == Schedule::paper_large || schedule == Schedule::weight_resident;
  return pass == Pass::backward && sums_in_blocks ? AlgorithmClass::P : AlgorithmClass::F;
}

double compulsory_bound(Pass pass, const LayerShape& shape, index_t batch) {
  const Sizes s(visible_part(shape), 1);
  const double rows_of_a = s.tie == Tie::none ? s.n + 2 * s.m : s.tie == Tie::kv ? s.n + s.m : s.n;
  const double common = double(batch) * (rows_of_a * s.d + s.n * s.e) + s.d * s.d + s.d * s.e;
  return pass == Pass::forward ? common : common + s.d * s.d;
}

double bound_a2(Pass pass, const LayerShape& shape, index_t M) {
  const Sizes s(shape, M);
  const double both = s.d + s.narrow;
  double c = 0;
  if (pass == Pass::backward) {
    switch (s.tie) {
      case Tie::none: c = block_constant(both, both); break;
      case Tie::kv: c = block_constant(both, s.d); break;
      case Tie::all: c = both * both; break;  // r and c share words: the best block is square
    }
  } else {
    switch (s.tie) {
      case Tie::none: c = block_constant(s.d, both); break;
      case Tie::kv: c = block_constant(s.d, s.d); break;
      case Tie::all: return 0;
    }
  }
  return positive(segment_bound(s.n * s.m, c, s.M));
}

double bound_g3(Pass pass, const LayerShape& shape, index_t M) {
  const Sizes s(shape, M);
  const bool forward = pass == Pass::forward;
  if (shape.dv != shape.d || s.tie == Tie::all || 6 * s.M > s.d * s.d) return 0;
  if (forward && s.tie != Tie::none) return 0;
  const double constant = forward              ? 2 * std::sqrt(2.0)
                          : s.tie == Tie::none ? 3 * std::sqrt(2.0)
                                               : 2 * std::sqrt(3.0);
  const double scale = 1 - 3 * s.M / (2 * s.d * s.d);
  return positive(constant * scale * s.n * s.m * s.d / std::sqrt(s.M) - 4 * s.M - s.longer * s.d);
}

double bound_b2(Pass pass, const LayerShape& shape, index_t M) {
  const Sizes s(shape, M);
  const double pairs = s.n * s.m;
  if (pass == Pass::backward) {
    const double columns = s.tie == Tie::none ? s.d + s.narrow : s.d;
    const double births = (s.tie == Tie::all ? 3 : 1) * s.longer * s.d;
    return positive(segment_bound(pairs, block_constant(2 * s.d + s.narrow, columns), s.M) -
                    births);
  }
  if (s.tie == Tie::all) return 0;
  // O = (f A3) Y: n d sums of f A3 appear, n dv words of O are written. O = f (A3 Y): as many of
  // each.
  const double z_columns = s.tie == Tie::none ? 2 * s.d : s.d;
  const double h_columns = s.tie == Tie::none ? s.d + s.narrow : s.d;
  const double z_form =
      segment_bound(pairs, block_constant(2 * s.d, z_columns), s.M) - s.n * positive(s.d - s.e);
  const double h_form = segment_bound(pairs, block_constant(s.d + s.e, h_columns), s.M);
  return positive(std::min(z_form, h_form));
}

double bound_c(Pass pass, const LayerShape& shape, index_t M) {
  const Sizes s(shape, M);
  const double pairs = s.n * s.m;
  const double projected = s.longer * s.d + std::max(s.n * s.d, s.m * s.e);  // S or K', G or Z or h
  double multiply_adds = 0, created = 0;
  if (pass == Pass::backward) {
    multiply_adds = pairs * (2 * s.d + s.narrow);
    created = (s.tie == Tie::none ? 2 : 3) * pairs + projected + s.longer * s.d;
    // With A1 = A2 the thin products would share operands with the scores.
    if (s.tie != Tie::all) multiply_adds += s.shorter * (2 * s.d * s.d + s.d * s.e);
  } else {
    if (s.tie == Tie::all) return 0;
    multiply_adds = pairs * (s.d + s.narrow) + s.shorter * (s.d * s.d + s.d * s.e);
    created = (s.tie == Tie::none ? 1 : 2) * pairs + projected;
  }
  return positive(2 * multiply_adds / std::sqrt(s.M) - 2 * s.M - created);
}

Bound key_gradients_bound(const LayerShape& shape, Form form, KeyPassKind kind) {
  const KeyPassWidths widths = key_pass_widths(shape, form, kind);
  const auto [n, m, d, e, tie, mask] = visible_part(shape);
  return {
      double(n) * double(widths.query + widths.u) + double(m) * double(widths.key + widths.sums),
      "compulsory",
      "S, dO or G, LSE, delta and the keys and values that are used are read and the outputs "
      "written at least once; nothing more is proved for this pass"};
}

Bound lower_bound(Pass pass, AlgorithmClass algorithms, const LayerShape& shape, index_t M,
                  index_t batch) {
  if (pass == Pass::backward_keys) {
    const auto of = [&](Form form) {
      return key_gradients_bound(shape, form, all_key_gradients(form, shape.tie));
    };
    const Bound g = of(Form::g), h = of(Form::h);
    return g.words < h.words ? g : h;
  }
  Bound best = {compulsory_bound(pass, shape, batch), "compulsory",
                "every input word is read and every output word written at least once"};
  const auto offer = [&best](double words, const char* name, const char* assumption) {
    if (words > best.words) best = {words, name, assumption};
  };
  if (shape.mask.hides() || batch > 1) return best;  // the others count all pairs of one entry
  offer(bound_a2(pass, shape, M), "a2",
        "proved for the pebble game with any summation trees, bracketing and recomputation; "
        "constants from our own proof, not from the paper");
  offer(bound_g3(pass, shape, M), "G3",
        "proved for the pebble game with recomputation at M <= d^2/6, every intermediate entry "
        "summed in one tree; constants from our own proof, not from the paper");
  if (algorithms == AlgorithmClass::P) return best;
  constexpr const char* class_f =
      "proved for class F: one accumulator per entry, no multiply-add done twice, one bracketing; "
      "constants from our own proof, not from the paper";
  offer(bound_b2(pass, shape, M), "b2", class_f);
  offer(bound_c(pass, shape, M), "c", class_f);
  return best;
}

Regime regime(const LayerShape& shape, index_t M) {
  return double(M) >= double(shape.d) * double(shape.d) ? Regime::large_cache : Regime::small_cache;
}

double paper_formula(const LayerShape& shape, index_t M) {
  const Sizes s(shape, M);
  const double pairs = s.n * s.m, square = s.d * s.d;
  const double large = (pairs * square + s.longer * square * s.d) / s.M;
  const double small = (pairs * s.d + s.longer * square) / std::sqrt(s.M);
  return std::min(large, small);
}

}  // namespace ioattn::theory
