#pragma once

// The arithmetic that the segment arguments share. Sizes are doubles: products of three pass 2^63
// long before a bound loses a word that matters. Proofs: BOUNDS.md.
namespace ioattn::theory {

constexpr double positive(double words) { return words > 0 ? words : 0; }

// If rows * r + columns * c <= tau words, then r c <= tau^2 / block_constant(rows, columns).
constexpr double block_constant(double rows, double columns) { return 4 * rows * columns; }

// a2, b2: max over integers X >= 1 of X (pairs / Phi(X) - 1), where
// Phi(X) = max{(M + X)^2 / c, M + X / 2} bounds the pairs of a segment of X events: an r x c block
// of clean pairs within M + X words, or M words of pairs at the start and X / 2 that were written
// and read again. May be negative. a3: of these M + X / 2 pairs only a share.
double segment_bound(double pairs, double c, double M, double share = 1);

// a3: pairs whose scores or whose q are computed take operands of at least `width` words a row and
// a column. `apart`: those of scores and of q are different words; keys and values may be one
// memory, or queries too.
enum class Zones { apart, keys_shared, all_shared };
double half_touched_bound(double pairs, double width, Zones zones, double M);

// c: a segment sees at most norm * M^(3/2) of `multiply_adds`, and creates names. May be negative.
double colour_bound(double multiply_adds, double norm, double created, double M);

}  // namespace ioattn::theory
