#pragma once

#include "base/problem.hpp"
#include "base/schedule.hpp"

namespace ioattn::theory {

// Classes of algorithms that a lower bound holds for.
enum class AlgorithmClass : std::uint8_t {
  P,  // anything the red-blue pebble game allows: any summation tree, recomputation
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
  const char* name = "none";    // "compulsory", "a2", "G3", "b2", "c"
  const char* assumption = "";  // what it was proved for, in one line
};

// The largest of the bounds proved for the class, the pass and the tie (proofs:
// lib/theory/README.md). Inputs are the A's, X, Y and, backward, dO; O and LSE may be given to the
// backward pass or computed in it. All sizes and M at least 1; tie = all needs n = m. M counts
// every word of fast memory, so a schedule that keeps k scalars in registers uncounted is to be
// compared at M + k.
// Under a mask, and for a batch, whose entries share X and Y, only the compulsory bound is proved.
Bound lower_bound(Pass pass, AlgorithmClass algorithms, const LayerShape& shape, index_t M,
                  index_t batch = 1);

// The same for a pass over the keys in one of its forms, which fixes its inputs: S, LSE, delta, A2
// and h and dO, or A3 and G. Only the compulsory bound is proved.
Bound key_gradients_bound(const LayerShape& shape, Form form, KeyPassKind kind);

// The single bounds, for tables and tests; 0 where one is not proved or not positive.
double compulsory_bound(Pass pass, const LayerShape& shape, index_t batch = 1);  // class P
double bound_a2(Pass pass, const LayerShape& shape, index_t M);                  // class P
double bound_g3(Pass pass, const LayerShape& shape, index_t M);  // class P, 6 M <= d^2
double bound_b2(Pass pass, const LayerShape& shape, index_t M);  // class F
double bound_c(Pass pass, const LayerShape& shape, index_t M);   // class F

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
