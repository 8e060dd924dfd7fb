#pragma once

// G3, the lower bound for small fast memories that holds whatever is recomputed. Proofs: BOUNDS.md.
namespace ioattn::theory {

// How the row and column operands of E and q come about: by themselves, or as products with X and
// Y, words of which may then stand for many; where the same words are operands of rows and of
// columns that must not happen at all.
enum class Operands { given, computed, computed_and_shared };

// A multiply-add of E counts as `scores`, any other as 1. Then a segment that holds y names of
// pairs and operands a and b makes at most sqrt(names a b (y + untouched a b / width^2)).
struct Weighing {
  double scores = 1, names = 1, untouched = 1;
};
Weighing weigh_backward(double scores);       // E, q, and one family of sums with p, or none
Weighing weigh_forward(double scores);        // E, and one family of sums with f
Weighing weigh_backward_tied(double scores);  // the same where both sides of a family may share
Weighing weigh_forward_tied(double scores);
Weighing weigh_scores_and_q_tied(double scores);  // E and q alone, tied

// That, largest, of a segment with B names, in units where width is 1. B at most 4 where operands
// are computed, at most 1 where they are shared as well.
double most_of_segment(double B, const Weighing& weighing, Operands operands);

struct Recomputed {
  double scores = 0;  // multiply-adds of E
  double others = 0;  // of all other families
  double width = 0;   // the least number of operands of a score or of q from either side
  double births = 0;  // roots of sums that no write pays for
  Operands operands = Operands::given;
  // Row operands of one family and column operands of another may be made from the same words of X.
  bool of_x_twice = false;
};

// How many names the proof covers, in units of width^2, where operands are computed.
double most_names(const Recomputed& work);

// With all of `weigh` from 0 to 1, or with one weighing. May be negative; 0 beyond M = width^2
// where operands are computed, as sums over blocks of rows are possible there.
double recomputation_bound(const Recomputed& work, Weighing (*weigh)(double scores), double M);
double recomputation_bound(const Recomputed& work, const Weighing& weighing, double M);

}  // namespace ioattn::theory
