#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::theory {

// Classes of algorithms that a lower bound holds for.
enum class AlgorithmClass : std::uint8_t {
  P,  // anything the red-blue pebble game allows: recomputation, and any summation tree but for G3
  F,  // every entry has one accumulator and no multiply-add is done twice
};
constexpr const char* name_of(AlgorithmClass c) { return c == AlgorithmClass::P ? "P" : "F"; }

// F for every schedule but, backward, paper_large and weight_resident: both sum T = A1^T p block by
// block, and the latter computes A2 X^T once per row block.
AlgorithmClass class_of(Pass pass, Schedule schedule);

// A lower bound on reads + writes, in words, with the name of the bound that gave it. Never
// negative.
struct Bound {
  double words = 0;
  const char* name = "none";    // "compulsory", "a2", "G3", "b2", "c", "b3", "a3"
  const char* assumption = "";  // what it was proved for, in one line
};

// The bounds proved for one problem, by name; 0 where one is not proved or not positive. `best`
// takes the largest of those that hold for the class.
struct BoundSet {
  double compulsory = 0, a2 = 0, g3 = 0;  // class P
  double b2 = 0, c = 0, b3 = 0;           // class F
  double a3 = 0;                          // class P

  Bound best(AlgorithmClass algorithms) const;
};

// The largest of the bounds proved for the class, the pass and the tie (proofs: BOUNDS.md). Inputs
// are the A's, X, Y and, backward, dO; O and LSE may be given to the backward pass or computed in
// it. All sizes and M at least 1; tie = all needs n = m, and holds too where A1 is the same memory
// as one of A2 and A3. M counts every word of fast memory, so a schedule that keeps k scalars in
// registers uncounted is to be compared at M + k. Entries of a batch share X and Y.
Bound lower_bound(Pass pass, AlgorithmClass algorithms, const LayerShape& shape, index_t M,
                  index_t batch = 1);
BoundSet layer_bounds(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);

// The same for any mask, by the pairs that it shows and the queries and keys that take part in one.
struct PairCounts {
  double pairs = 0, rows = 0, columns = 0;
};
BoundSet masked_bounds(Pass pass, const PairCounts& counts, index_t d, index_t dv, Tie tie,
                       index_t M);

// The same for a pass over the keys in one of its forms, which fixes its inputs: S, LSE, delta, A2
// and h and dO, or A3 and G.
Bound key_gradients_bound(AlgorithmClass algorithms, const LayerShape& shape, Form form,
                          KeyPassKind kind, index_t M);

// The single bounds, for tables and tests.
double compulsory_bound(Pass pass, const LayerShape& shape, index_t batch = 1);
double bound_a2(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);
// `of_dx`: dX, not other sums with p, where the proof covers fewer names if A1 = A2 = A3.
double bound_g3(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1,
                bool of_dx = true);
double bound_b2(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);
double bound_c(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);
double bound_a3(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);
double bound_b3(Pass pass, const LayerShape& shape, index_t M, index_t batch = 1);

// Pairs of a query and a key that it sees, and the shape without queries that see no key and keys
// that no query sees.
double pairs_of(const LayerShape& shape);
LayerShape visible_part(const LayerShape& shape);

// The paper's formula with constant 1: min{(n^2 d^2 + n d^3)/M, (n^2 d + n d^2)/sqrt(M)} and its
// regime: large cache from M = d^2 on. The paper has m = n and dv = d; elsewhere n^2 is read as n
// m, n as max(n, m), and dv has no part in it.
enum class Regime : std::uint8_t { small_cache, large_cache };
constexpr const char* name_of(Regime r) {
  return r == Regime::small_cache ? "small cache" : "large cache";
}
Regime regime(const LayerShape& shape, index_t M);
double paper_formula(const LayerShape& shape, index_t M);

}  // namespace ioattn::theory
