#pragma once

// b3, the lower bound of class F that tells pairs whose work is done in one segment from pairs that
// leave a word behind. Proofs: BOUNDS.md.
namespace ioattn::theory {

struct PairWork {
  double multiply_adds = 0;
  double whole = 0;   // c: z words of operands see at most z^2 / c pairs through
  double births = 0;  // events that are neither reads nor writes
  // With z words of operands and w pairs in all, of which as many are whole as can be, a segment
  // makes at most rate z sqrt(w); where none is whole, at most rate_of_named z sqrt(w).
  double rate = 0, rate_of_named = 0;
};

// The most that a segment makes, in multiply-adds less `price` for each name that it leaves and
// plus as much for each it finds, which cancel over a run. In units where c, and so c^(3/2)
// multiply-adds, is 1: M words, `events` reads, writes of names and births. From above, within 1%;
// where it is more than `enough`, anything from there on.
double most_of_priced_segment(const PairWork& work, double M, double events, double price,
                              double enough = 1e300);

// With the best events and prices of a list. May be negative; 0 beyond M = 0.4 c, where b2 is met.
double pair_names_bound(const PairWork& work, double M);

}  // namespace ioattn::theory
