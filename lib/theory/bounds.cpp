#include "theory/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "theory/block_costs.hpp"
#include "theory/core_bounds.hpp"
#include "theory/pair_names.hpp"
#include "theory/recomputation_bound.hpp"
#include "theory/segments.hpp"

// Proofs, also for dv != d, masks and batches: BOUNDS.md.
namespace ioattn::theory {
namespace {

// Of all entries of a batch together: pairs, and queries and keys that take part in one.
struct Sizes {
  double pairs, rows, columns, d, e, M, batch;
  double narrow;           // min(d, dv): disjoint paths through Y
  double longer, shorter;  // of rows and columns
  Tie tie;

  Sizes(const PairCounts& counts, index_t d_words, index_t dv_words, Tie shared, index_t words,
        index_t entries)
      : pairs(double(entries) * counts.pairs),
        rows(double(entries) * counts.rows),
        columns(double(entries) * counts.columns),
        d(double(d_words)),
        e(double(dv_words)),
        M(double(words)),
        batch(double(entries)),
        narrow(std::min(d, e)),
        longer(std::max(rows, columns)),
        shorter(std::min(rows, columns)),
        tie(shared) {}
  Sizes(const LayerShape& shape, index_t words, index_t entries)
      : Sizes({pairs_of(shape), double(visible_part(shape).n), double(visible_part(shape).m)},
              shape.d, shape.dv, shape.tie, words, entries) {}
};

double compulsory_of(Pass pass, const Sizes& s) {
  if (s.pairs == 0) return 0;  // nothing need be read
  const double rows_of_a = s.tie == Tie::none ? s.rows + 2 * s.columns
                           : s.tie == Tie::kv ? s.rows + s.columns
                                              : s.longer;
  const double common = rows_of_a * s.d + s.rows * s.e + s.d * s.d + s.d * s.e;
  return pass == Pass::forward ? common : common + s.d * s.d;
}

double a2_of(Pass pass, const Sizes& s) {
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
      case Tie::all: c = s.d * s.d; break;
    }
  }
  return positive(segment_bound(s.pairs, c, s.M));
}

double a3_of(Pass pass, const Sizes& s) {
  if (pass == Pass::forward) return 0;  // a pair whose score is there takes next to nothing more
  const Zones zones = s.tie == Tie::none ? Zones::apart
                      : s.tie == Tie::kv ? Zones::keys_shared
                                         : Zones::all_shared;
  return positive(half_touched_bound(s.pairs, s.narrow, zones, s.M));
}

double g3_of(Pass pass, const Sizes& s, bool of_dx = true) {
  const bool forward = pass == Pass::forward, tied = s.tie != Tie::none;
  Recomputed work;
  work.scores = s.pairs * s.d;
  work.others = s.pairs * (forward ? s.narrow : s.d + s.narrow);
  work.width = forward ? s.d : s.narrow;
  work.births = forward ? s.rows * std::max(s.d, s.e) : s.longer * s.d;
  work.operands = s.tie == Tie::all ? Operands::computed_and_shared : Operands::computed;
  work.of_x_twice = !of_dx;
  const auto weigh = forward ? (tied ? weigh_forward_tied : weigh_forward)
                             : (tied ? weigh_backward_tied : weigh_backward);
  return recomputation_bound(work, weigh, s.M);
}

double b2_of(Pass pass, const Sizes& s) {
  if (pass == Pass::backward) {
    const double columns = s.tie == Tie::none ? s.d + s.narrow : s.d;
    const double births = (s.tie == Tie::all ? 3 : 1) * s.longer * s.d;
    return positive(segment_bound(s.pairs, block_constant(2 * s.d + s.narrow, columns), s.M) -
                    births);
  }
  // O = (f A3) Y: n d sums of f A3 appear, n dv words of O are written. O = f (A3 Y): as many of
  // each. With A1 = A2 the births of S or K' are charged as well.
  const double z_columns = s.tie == Tie::none ? 2 * s.d : s.d;
  const double h_columns = s.tie == Tie::none ? s.d + s.narrow : s.d;
  const double z_form = segment_bound(s.pairs, block_constant(2 * s.d, z_columns), s.M) -
                        s.rows * positive(s.d - s.e);
  const double h_form = segment_bound(s.pairs, block_constant(s.d + s.e, h_columns), s.M);
  const double births = s.tie == Tie::all ? s.longer * s.d : 0;
  return positive(std::min(z_form, h_form) - births);
}

double c_of(Pass pass, const Sizes& s) {
  // S or K', G or Z or h
  const double projected = s.longer * s.d + std::max(s.rows * s.d, s.columns * s.e);
  const bool forward = pass == Pass::forward;
  double multiply_adds = s.pairs * ((forward ? 1 : 2) * s.d + s.narrow);
  // With A1 = A2 the thin products would share operands with the scores.
  if (s.tie != Tie::all) {
    multiply_adds += s.shorter * ((forward ? 1 : 2) * s.d * s.d + s.d * s.e);
  }
  double created = ((forward ? 1 : 2) + (s.tie == Tie::none ? 0 : 1)) * s.pairs + projected;
  // U or T; an accumulator of dX per entry, one of which is written.
  if (!forward) created += s.longer * s.d + (s.batch - 1) * s.d * s.d;
  return positive(colour_bound(multiply_adds, 1, created, s.M));
}

// Operands of E and of U (T) have one side in common, those of q only where keys are values.
double b3_backward(const Sizes& s) {
  const double columns = s.tie == Tie::none ? s.d + s.narrow : s.d;
  PairWork work;
  work.multiply_adds = s.pairs * (2 * s.d + s.narrow);
  work.whole = block_constant(2 * s.d + s.narrow, columns);
  work.births = (s.tie == Tie::all ? 2 : 1) * s.longer * s.d;
  if (s.tie == Tie::all || s.d != s.e) work.births += std::max(s.rows * s.d, s.columns * s.e);
  if (s.tie == Tie::none) {
    const double root2 = std::sqrt(2.0);
    work.rate_of_named = 1 / root2;
    work.rate = 1 / root2 - (root2 - 1) * s.narrow / std::sqrt(work.whole);
  } else {
    work.rate = std::sqrt(3.0) / 2;
  }
  return positive(pair_names_bound(work, s.M));
}

// As b2: the lesser of both forms.
double b3_forward(const Sizes& s) {
  PairWork work;
  work.rate = s.tie == Tie::none ? 0.5 : 1 / std::sqrt(2.0);
  const double births = s.tie == Tie::all ? s.longer * s.d : 0;
  const auto bound = [&](double of_sums, double columns, double born) {
    work.multiply_adds = s.pairs * (s.d + of_sums);
    work.whole = block_constant(s.d + of_sums, columns);
    work.births = births + born;
    return pair_names_bound(work, s.M);
  };
  const bool tied = s.tie != Tie::none;
  const double z_form = bound(s.d, tied ? s.d : 2 * s.d, s.rows * positive(s.d - s.e));
  const double h_form = bound(s.e, tied ? s.d : s.d + s.narrow, s.e > s.d ? s.columns * s.e : 0);
  return positive(std::min(z_form, h_form));
}

double b3_of(Pass pass, const Sizes& s) {
  if (s.pairs == 0) return 0;
  return pass == Pass::forward ? b3_forward(s) : b3_backward(s);
}

BoundSet bounds_of(Pass pass, const Sizes& s) {
  return {compulsory_of(pass, s), a2_of(pass, s), g3_of(pass, s), b2_of(pass, s),
          c_of(pass, s),          b3_of(pass, s), a3_of(pass, s)};
}

}  // namespace

double pairs_of(const LayerShape& shape) {
  if (!shape.mask.hides()) return double(shape.n) * double(shape.m);
  return double(visible_pairs(shape.mask, shape.n, shape.m));
}

LayerShape visible_part(const LayerShape& shape) {
  if (!shape.mask.hides()) return shape;
  LayerShape part = shape;
  part.n = seeing_queries(shape).size();
  part.m = seen_keys(shape).size();
  return part;
}

AlgorithmClass class_of(Pass pass, Schedule schedule) {
  const bool sums_in_blocks =
      schedule == Schedule::paper_large || schedule == Schedule::weight_resident;
  return pass == Pass::backward && sums_in_blocks ? AlgorithmClass::P : AlgorithmClass::F;
}

Bound BoundSet::best(AlgorithmClass algorithms) const {
  Bound best = {compulsory, "compulsory",
                "every input word is read and every output word written at least once"};
  const auto offer = [&best](double words, const char* name, const char* assumption) {
    if (words > best.words) best = {words, name, assumption};
  };
  offer(a2, "a2",
        "proved for the pebble game with any summation trees, bracketing and recomputation; "
        "constants from our own proof, not from the paper");
  offer(a3, "a3",
        "proved for the pebble game with any summation trees, bracketing and recomputation; "
        "constants from our own proof, not from the paper");
  offer(
      g3, "G3",
      "proved for the pebble game with recomputation, every intermediate entry summed in one tree, "
      "one bracketing, M at most the width squared where operands are computed; constants from "
      "our own proof, not from the paper");
  if (algorithms == AlgorithmClass::P) return best;
  constexpr const char* class_f =
      "proved for class F: one accumulator per entry, no multiply-add done twice, one bracketing; "
      "constants from our own proof, not from the paper";
  offer(b2, "b2", class_f);
  offer(c, "c", class_f);
  offer(b3, "b3", class_f);
  return best;
}

double compulsory_bound(Pass pass, const LayerShape& shape, index_t batch) {
  return compulsory_of(pass, Sizes(shape, 1, batch));
}
double bound_a2(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return a2_of(pass, Sizes(shape, M, batch));
}
double bound_g3(Pass pass, const LayerShape& shape, index_t M, index_t batch, bool of_dx) {
  return g3_of(pass, Sizes(shape, M, batch), of_dx);
}
double bound_b2(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return b2_of(pass, Sizes(shape, M, batch));
}
double bound_c(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return c_of(pass, Sizes(shape, M, batch));
}
double bound_a3(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return a3_of(pass, Sizes(shape, M, batch));
}
double bound_b3(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return b3_of(pass, Sizes(shape, M, batch));
}

BoundSet layer_bounds(Pass pass, const LayerShape& shape, index_t M, index_t batch) {
  return bounds_of(pass, Sizes(shape, M, batch));
}

BoundSet masked_bounds(Pass pass, const PairCounts& counts, index_t d, index_t dv, Tie tie,
                       index_t M) {
  return bounds_of(pass, Sizes(counts, d, dv, tie, M, 1));
}

Bound key_gradients_bound(AlgorithmClass algorithms, const LayerShape& shape, Form form,
                          KeyPassKind kind, index_t M) {
  const KeyPassWidths widths = key_pass_widths(shape, form, kind);
  const LayerShape part = visible_part(shape);
  CoreProblem core;
  core.pairs = pairs_of(shape);
  core.d = double(shape.d);
  core.e = double(form == Form::g ? shape.d : shape.dv);
  core.tied = form == Form::g && shape.tie != Tie::none;
  core.dQ = kind.queries;
  core.dK = kind.of_keys();
  core.dV = kind.of_values();
  core.one_sum = kind.is_sum();
  const double rows = double(part.n), columns = double(part.m);
  core.compulsory =
      rows * double(widths.query + widths.u) + columns * double(widths.key + widths.sums);
  core.apart = rows * (core.needs_p() ? 2 : 1);  // LSE and delta
  return core_bounds(core, M).best(algorithms);
}

Bound lower_bound(Pass pass, AlgorithmClass algorithms, const LayerShape& shape, index_t M,
                  index_t batch) {
  if (pass == Pass::backward_keys) {
    const auto of = [&](Form form) {
      return key_gradients_bound(algorithms, shape, form, all_key_gradients(form, shape.tie), M);
    };
    const Bound g = of(Form::g), h = of(Form::h);
    return g.words < h.words ? g : h;
  }
  return layer_bounds(pass, shape, M, batch).best(algorithms);
}

Regime regime(const LayerShape& shape, index_t M) {
  return double(M) >= double(shape.d) * double(shape.d) ? Regime::large_cache : Regime::small_cache;
}

double paper_formula(const LayerShape& shape, index_t M) {
  const double n = double(shape.n), m = double(shape.m), d = double(shape.d), words = double(M);
  const double pairs = n * m, square = d * d, longer = std::max(n, m);
  const double large = (pairs * square + longer * square * d) / words;
  const double small = (pairs * d + longer * square) / std::sqrt(words);
  return std::min(large, small);
}

}  // namespace ioattn::theory
